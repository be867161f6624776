#!/bin/bash
# Make the real Slurm records beside this script: a cluster of four pretended nodes on the loopback, some dozens of jobs.
#
# For a throw-away Debian 12 machine, as root; it adds the users ana and ben, and takes about four minutes:
#   apt-get install -y --no-install-recommends slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins \
#       mariadb-server munge
#   tests/data/make_sacct.sh OUT_FOLDER
# All that it starts lies in one folder under /tmp and is stopped at the end. Host, users and paths in the files are
# those of that machine and of nobody.
set -eu
OUT=$(realpath "${1:?a folder for the files}")
SITE=$(mktemp -d /tmp/slurm-site.XXXX)
chmod 755 "$SITE"
mkdir -p "$SITE"/{db,state,spool,log,munge,work} && chmod 777 "$SITE/work"
export SLURM_CONF=$SITE/slurm.conf
STARTED=()
trap 'for pid in "${STARTED[@]}"; do kill "$pid" 2>/dev/null || true; done; wait 2>/dev/null || true' EXIT
for user in ana ben; do id "$user" >/dev/null 2>&1 || useradd --create-home "$user"; done

# credentials and the data base
install -o munge -g munge -m 700 -d "$SITE/munge"
dd if=/dev/urandom of="$SITE/munge/key" bs=1 count=1024 2>/dev/null
chown munge: "$SITE/munge/key" && chmod 400 "$SITE/munge/key"
install -o munge -g munge -m 755 -d /run/munge
setpriv --reuid munge --regid munge --clear-groups munged -F --key-file="$SITE/munge/key" --socket=/run/munge/munge.socket.2 \
    --pid-file="$SITE/munge/pid" --seed-file="$SITE/munge/seed" --log-file="$SITE/munge/log" >/dev/null 2>&1 &
STARTED+=($!)
chown mysql: "$SITE/db"
mariadb-install-db --user=mysql --datadir="$SITE/db" --skip-test-db >"$SITE/log/db-install" 2>&1
install -o mysql -g mysql -m 755 -d "$SITE/db-run"
mariadbd --no-defaults --user=mysql --datadir="$SITE/db" --socket="$SITE/db-run/sock" --bind-address=127.0.0.1 --port=13306 \
    --pid-file="$SITE/db-run/pid" --innodb-buffer-pool-size=64M >"$SITE/log/db" 2>&1 &
STARTED+=($!)
for _ in $(seq 60); do mariadb --socket="$SITE/db-run/sock" -e 'select 1' >/dev/null 2>&1 && break; sleep 0.5; done
mariadb --socket="$SITE/db-run/sock" -e "create database acct; create user slurm@127.0.0.1 identified by 'loopback';
    create user slurm@localhost identified by 'loopback'; grant all on acct.* to slurm@127.0.0.1;
    grant all on acct.* to slurm@localhost;"

# the cluster
HOST=$(hostname -s)
cat >"$SITE/slurmdbd.conf" <<END
AuthType=auth/munge
AuthInfo=socket=/run/munge/munge.socket.2
DbdHost=localhost
DbdPort=16819
SlurmUser=root
LogFile=$SITE/log/slurmdbd
PidFile=$SITE/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=13306
StorageUser=slurm
StoragePass=loopback
StorageLoc=acct
END
chmod 600 "$SITE/slurmdbd.conf"
cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/munge.socket.2
SlurmctldPort=16817
SlurmctldPidFile=$SITE/slurmctld.pid
SlurmdPidFile=$SITE/slurmd-%n.pid
SlurmdSpoolDir=$SITE/spool/%n
StateSaveLocation=$SITE/state
SlurmctldLogFile=$SITE/log/slurmctld
SlurmdLogFile=$SITE/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
MpiDefault=none
ReturnToService=2
KillWait=2
MinJobAge=600
JobRequeue=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=16819
AccountingStoreFlags=job_comment
SlurmdParameters=config_overrides
NodeName=n[1-4] NodeHostname=$HOST NodeAddr=127.0.0.1 Port=[17001-17004] CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=batch Nodes=n[1-4] Default=YES MaxTime=10:00:00 DefaultTime=00:10:00
PartitionName=endless Nodes=n[1-4] MaxTime=INFINITE
PartitionName=capped Nodes=n[1-2] MaxTime=1:00:00
END
slurmdbd -D -s >"$SITE/log/slurmdbd.out" 2>&1 &
STARTED+=($!)
export SLURM_CONF
for _ in $(seq 60); do sacctmgr -i add cluster test >/dev/null 2>&1 && break; sleep 0.5; done
sacctmgr -i add account physics Description=physics Organization=lab >/dev/null || true
sacctmgr -i add account chem_bio Description=chemistry Organization=lab >/dev/null || true
sacctmgr -i add user ana Account=physics >/dev/null || true
sacctmgr -i add user ben Account=chem_bio >/dev/null || true
slurmctld -D -c >"$SITE/log/slurmctld.out" 2>&1 &
STARTED+=($!)
sleep 3
for n in 1 2 3 4; do
    mkdir -p "$SITE/spool/n$n"
    slurmd -D -N n$n >"$SITE/log/slurmd-n$n.out" 2>&1 &
    STARTED+=($!)
done
for _ in $(seq 60); do [ "$(sinfo -h -o '%D %t' | tr '\n' ';')" ] && sinfo -h -o %t | grep -q idle && break; sleep 0.5; done
sinfo
as() { user=$1; shift; (cd "$SITE/work" && setpriv --reuid "$user" --regid "$user" --clear-groups env HOME=/home/$user "$@"); }
submit() { user=$1; shift; as "$user" sbatch --parsable -o /dev/null "$@"; }

# jobs of all kinds
submit ana -J plain -n 4 -t 5 --wrap 'srun -n 4 sleep 3; srun -n 1 sleep 1'
submit ana -J 'two nodes' -N 2 -t 1-00:00:00 -p endless --wrap 'sleep 4'
submit ana -J 'pipe|in|name' -n 1 -t 2 --wrap 'sleep 1'
submit ben -J $'line\nbreak' -n 1 -t 2 --wrap $'sleep 1\necho "|" done'
submit ben -J 'quote"comma,' -n 2 -t 2 --mem-per-cpu=10M --comment 'half | whole' --wrap 'sleep 2'
submit ben -J fails -n 1 -t 3 --wrap 'sleep 1; exit 3'
submit ben -J signalled -n 1 -t 3 --wrap 'kill -SEGV $$'
submit ana -J timeout -n 8 -t 1 --wrap 'sleep 600'
submit ana -J endless -n 1 -t UNLIMITED -p endless --wrap 'sleep 2'
submit ana -J no-limit -n 1 -p capped --wrap 'sleep 2'
submit ben -J array -n 1 -t 5 --array=1-8%3 --wrap 'sleep 2; [ $SLURM_ARRAY_TASK_ID -ne 5 ]'
submit ben -J het -n 1 -t 2 : -n 4 -t 2 --wrap 'sleep 2'
REQUEUE=$(submit ana -J requeued -n 2 -t 5 --requeue --wrap 'sleep 5')
first=$(submit ana -J first -n 1 -t 2 --wrap 'sleep 2')
submit ana -J second -n 1 -t 2 --dependency=afterok:"$first" --wrap 'sleep 1'
bad=$(submit ana -J bad -n 1 -t 2 --wrap 'exit 1')
submit ana -J never --kill-on-invalid-dep=yes -n 1 -t 2 --dependency=afterok:"$bad" --wrap 'sleep 1'
HELD=$(submit ben -J held -H -n 1 -t 2 --wrap 'sleep 1')
GONE=$(submit ben -J cancelled-waiting -H -n 1 -t 2 --wrap 'sleep 1')
RUNNING=$(submit ben -J cancelled-running -n 3 -t 5 --wrap 'sleep 60')
FAILING=$(submit ana -J node-fails --no-requeue -w n4 -n 1 -t 5 --wrap 'sleep 60')
submit ana -J mem -n 1 -t 2 --mem=500M --wrap 'sleep 1'
submit ana -J exclusive -N 3 --exclusive -t 2 --wrap 'sleep 3'
WIDE=$(submit ana -J cancelled-eligible -N 4 --exclusive -t 9:00:00 --wrap 'sleep 1')
for k in $(seq 12); do submit ana -J "run" -n $((k % 5 + 1)) -t $((k % 3 + 1)) --wrap "sleep $((k % 4 + 1))"; done
as ben srun -J interactive -n 2 -t 1 sleep 2 || true
sleep 6
scontrol requeue "$REQUEUE" || true
scancel "$GONE" "$WIDE" || true
as ben scancel "$RUNNING" || true
scontrol update nodename=n4 state=down reason=test || true
sleep 20
scontrol update jobid="$REQUEUE" starttime=now || true
for _ in $(seq 75); do [ -z "$(squeue -h -t RUNNING,COMPLETING,CONFIGURING)$(squeue -h -n requeued)" ] && break; sleep 2; done
submit ben -J pending-begin --begin=now+10hours -n 1 -t 5 --wrap 'sleep 1' || true
submit ben -J pending-array --begin=now+10hours -n 1 -t 5 --array=1-50%10 --wrap 'sleep 1' || true
submit ben -J still-running -n 1 -t 5 --wrap 'sleep 300' || true
sleep 6
squeue -o '%i %j %T %R' || true

# what sacct says of them
WHEN=(-S now-1day -E now+1day -a -D)
FIELDS=JobIDRaw,JobID,User,Group,Account,Partition,QOS,ReqNodes,AllocNodes,NNodes,ReqCPUS,AllocCPUS,NCPUS,ReqMem,ReqTRES
FIELDS=$FIELDS,AllocTRES,Timelimit,TimelimitRaw,Submit,Eligible,Start,End,Elapsed,ElapsedRaw,State,ExitCode
FIELDS=$FIELDS,CPUTimeRAW,TotalCPU,JobName,WorkDir,SubmitLine,Constraints,Reservation,NodeList
unset SLURM_TIME_FORMAT
export TZ=Europe/Paris
sacct "${WHEN[@]}" --parsable2 --format=$FIELDS >"$OUT/sacct_steps.txt"
sacct "${WHEN[@]}" -X --parsable2 --format=$FIELDS >"$OUT/sacct_jobs.txt"
SLURM_TIME_FORMAT=%s sacct "${WHEN[@]}" -X --parsable2 --format=$FIELDS >"$OUT/sacct_unix.txt"
sacct "${WHEN[@]}" -X --parsable2 >"$OUT/sacct_default.txt"
sacct "${WHEN[@]}" --json >"$OUT/sacct.json"
sed -i "s#$SITE/work#/home/work#g; s#${SITE//\//\\\\/}\\\\/work#\\\\/home\\\\/work#g; s#\b$HOST\b#host#g" "$OUT"/sacct*
gzip -9nf "$OUT/sacct.json"
wc "$OUT"/sacct*
scancel -u ben 2>/dev/null || true
scancel -u ana 2>/dev/null || true
sleep 8
echo "the site's logs stay in $SITE"
