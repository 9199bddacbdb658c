package dialect

import (
	"fmt"
	"net/http"
	"time"

	"breakwater/internal/reply"
	"breakwater/slo/gate"
)

// FreezePeriod is one as GitLab's freeze periods API takes it (POST
// /projects/:id/freeze_periods): two cron lines and their zone.
type FreezePeriod struct {
	Start string `json:"freeze_start"`
	End   string `json:"freeze_end"`
	Zone  string `json:"cron_timezone"`
}

// ownZone is UTC under a name that people do not write: GitLab's periods have no
// label, and by it those of ours are told from those of others.
const ownZone = "Etc/UTC"

// unsure is how long a period lasts whose end nobody knows; the export is taken
// again before that.
const unsure = 24 * time.Hour

// GitLab serves GET /api/v1/gate/gitlab/freeze_periods?service&env: the periods
// that a project should have now, none or one. A job sees CI_DEPLOY_FREEZE within
// them, and has to heed it by its own rules. Cron knows no year and no seconds: a
// period is taken back once it is over, and begins and ends at whole minutes.
func (d *Desk) GitLab(w http.ResponseWriter, r *http.Request) {
	q, err := read(r, nil)
	if err != nil {
		refuse(w, err)
		return
	}
	q.Standing = true
	a := q.settle(d.cfg.Gate.Answer(r.Context(), q.Request))
	periods := []FreezePeriod{}
	if a.Decision != gate.Allow {
		periods = append(periods, period(d.cfg.Now().UTC(), a.ThawAt))
	}
	reply.JSON(w, http.StatusOK, struct {
		Periods []FreezePeriod `json:"freeze_periods"`
		Said
	}{periods, said(a)})
}

// period is from the minute of now until thaw, which may not be known.
func period(now time.Time, thaw *time.Time) FreezePeriod {
	start, end := now.Truncate(time.Minute), now.Add(unsure)
	// Longer than a year would read as nearly over; a thaw past says no more than none.
	if thaw != nil && thaw.After(now) && thaw.Sub(now) < 300*24*time.Hour {
		end = *thaw
	}
	// Never before the thaw: up to the next whole minute.
	if whole := end.Truncate(time.Minute); !whole.Equal(end) {
		end = whole.Add(time.Minute)
	}
	return FreezePeriod{line(start), line(end), ownZone}
}

func line(at time.Time) string {
	at = at.UTC()
	return fmt.Sprintf("%d %d %d %d *", at.Minute(), at.Hour(), at.Day(), int(at.Month()))
}
