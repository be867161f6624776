/* EASY with requested times in plain C, as a yardstick: arrays sorted by insertion, no index, no records of why.

   Jobs come sorted by (submit, job id); their run times are at most the requested times. At every second at which a job
   ends or is submitted: ends, submissions, one pass. See schedsim/kernels/passes/easy.py for the rule. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t time, procs;
} Release;

/* Insert into an array sorted by time, behind equal ones. */
static void insert(Release *sorted, int64_t n, int64_t time, int64_t procs) {
    int64_t i = n;
    while (i > 0 && sorted[i - 1].time > time) i--;
    memmove(sorted + i + 1, sorted + i, (size_t)(n - i) * sizeof *sorted);
    sorted[i] = (Release){time, procs};
}

static void take_out(Release *sorted, int64_t n, int64_t time, int64_t procs) {
    int64_t i = 0;
    while (sorted[i].time != time || sorted[i].procs != procs) i++;
    memmove(sorted + i, sorted + i + 1, (size_t)(n - i - 1) * sizeof *sorted);
}

typedef struct {
    int64_t end, row;
} End;

/* Schedule n jobs on a machine; write their starts. Returns 0, or -1 if there is no memory. */
int easy(int64_t n, const int64_t *submit, const int64_t *procs, const int64_t *requested, const int64_t *run,
         int64_t machine, int64_t *start) {
    Release *planned = malloc((size_t)(machine + 1) * sizeof *planned); /* running jobs by requested end */
    End *ends = malloc((size_t)(machine + 1) * sizeof *ends);           /* and by real end, latest first */
    int64_t *queue = malloc((size_t)(n + 1) * sizeof *queue);           /* waiting jobs by row, from `first` on */
    int64_t first = 0, last = 0, running = 0, free_procs = machine, next = 0;
    if (planned == NULL || ends == NULL || queue == NULL) return -1;
    while (next < n || running > 0) {
        int64_t now = running > 0 ? ends[running - 1].end : INT64_MAX;
        if (next < n && submit[next] < now) now = submit[next];
        while (running > 0 && ends[running - 1].end == now) {
            int64_t row = ends[running - 1].row;
            take_out(planned, running, start[row] + requested[row], procs[row]);
            free_procs += procs[row];
            running--;
        }
        while (next < n && submit[next] == now) queue[last++] = next++;
        int64_t shadow = -1, extra = 0, kept = first, i = first;
        for (; i < last && (free_procs > 0 || shadow < 0); i++) {
            int64_t row = queue[i], width = procs[row];
            int fits = width <= free_procs;
            if (shadow >= 0) fits = fits && (now + requested[row] <= shadow || width <= extra);
            if (!fits) {
                if (shadow < 0) { /* the head: when will enough be free, and how many beside it? */
                    int64_t k = 0, released = free_procs;
                    while (released < width) shadow = planned[k].time, released += planned[k++].procs;
                    while (k < running && planned[k].time == shadow) released += planned[k++].procs;
                    extra = released - width;
                }
                queue[kept++] = row;
                continue;
            }
            start[row] = now;
            if (run[row] == 0) continue;
            if (shadow >= 0 && now + requested[row] > shadow) extra -= width;
            free_procs -= width;
            insert(planned, running, now + requested[row], width);
            int64_t k = running++, end = now + run[row];
            for (; k > 0 && ends[k - 1].end < end; k--) ends[k] = ends[k - 1];
            ends[k] = (End){end, row};
        }
        if (i > kept) { /* close the gap, from the shorter side */
            if (kept - first <= last - i) {
                int64_t gap = i - kept;
                memmove(queue + first + gap, queue + first, (size_t)(kept - first) * sizeof *queue);
                first += gap;
            } else {
                memmove(queue + kept, queue + i, (size_t)(last - i) * sizeof *queue);
                last -= i - kept;
            }
        }
    }
    free(planned), free(ends), free(queue);
    return 0;
}
