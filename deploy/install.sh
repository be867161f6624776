#!/bin/sh
# Puts the service in place: user, folders, key for names, tokens, units, rotation. Run as root; run again, it keeps
# what is there. jobcast itself is installed before: python3 -m venv /opt/jobcast && /opt/jobcast/bin/pip install WHEEL[all]
#
#   JOBCAST=/opt/jobcast/bin/jobcast   the command
#   DESTDIR=                           a root to install into, for packages
#   OWNER=jobcast                      the user that the service runs as
set -eu
umask 027
here=$(cd "$(dirname "$0")" && pwd)
JOBCAST=${JOBCAST:-/opt/jobcast/bin/jobcast}
DESTDIR=${DESTDIR:-}
OWNER=${OWNER:-jobcast}
etc=$DESTDIR/etc/jobcast

[ "$(id -u)" = 0 ] || { echo "install.sh: run it as root" >&2; exit 2; }
command -v "$JOBCAST" >/dev/null || { echo "install.sh: $JOBCAST is not there; install jobcast first, or set JOBCAST" >&2; exit 2; }
if ! getent passwd "$OWNER" >/dev/null; then
  useradd --system --home-dir /var/lib/jobcast --shell /usr/sbin/nologin --user-group "$OWNER"
fi
group=$(id -gn "$OWNER")

install -d -m 0750 -o root -g "$group" "$etc"
install -d -m 0700 -o "$OWNER" -g "$group" "$DESTDIR/var/lib/jobcast"
install -d -m 0750 -o "$OWNER" -g "$group" "$DESTDIR/var/log/jobcast"

# The key of the hashes that stand for names: lost, nobody is known again; so it belongs into the backup.
if [ ! -s "$etc/name-key" ]; then
  head -c 32 /dev/urandom | base64 > "$etc/name-key.part"
  chown root:"$group" "$etc/name-key.part"
  chmod 0640 "$etc/name-key.part"
  mv "$etc/name-key.part" "$etc/name-key"
fi
# A token each: one to send events, one to read metrics and pages. Each is kept once, for its owner alone.
for one in slurmctld:write monitoring:read; do
  name=${one%%:*} role=${one##*:}
  if ! grep -qs " $name\$" "$etc/tokens"; then
    (umask 077 && "$JOBCAST" token "$name" --role "$role" --file "$etc/tokens" > "$etc/$name.token")
  fi
done
chown root:"$group" "$etc/tokens"
chmod 0640 "$etc/tokens"

install -d "$DESTDIR/etc/systemd/system" "$DESTDIR/etc/logrotate.d"
install -m 0644 "$here"/systemd/*.service "$here"/systemd/*.timer "$DESTDIR/etc/systemd/system/"
install -m 0644 "$here/logrotate/jobcast" "$DESTDIR/etc/logrotate.d/jobcast"
if [ -z "$DESTDIR" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
echo "In place. Train and promote a model as $OWNER with JOBCAST_HOME=/var/lib/jobcast, then: systemctl enable --now jobcast"
