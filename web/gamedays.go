package web

import (
	"net/http"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/injector/cron"
	"breakwater/slo"
)

// Plan is one schedule with its coming runs.
type Plan struct {
	Title, Words, Cron, Zone, Scenarios, Grant string
	Off                                        bool
	Next                                       []Coming
	Last                                       []Decision
	LastRun                                    *RunRow
}

// Coming is a future run in the three ways people ask for it.
type Coming struct {
	Local, UTC Time
	In, Note   string
}

// Decision is what was decided about one due instant.
type Decision struct {
	Time       Time
	Text, Link string
	Skipped    bool
}

type gamedaysView struct {
	Sub, Trouble, RunTrouble string
	Plans                    []Plan
	Runs                     []RunRow
	More                     bool
}

func (s *Server) gamedays(w http.ResponseWriter, r *http.Request) {
	v := s.look(r)
	schedules, err := s.cfg.Drills.Schedules(r.Context())
	o := gamedaysView{Trouble: s.read(r.Context(), "Schedules", err), RunTrouble: s.read(r.Context(), "Runs", v.runsErr)}
	for _, sc := range schedules {
		o.Plans = append(o.Plans, v.plan(sc))
	}
	// Runs that belong to a game day; a single run stands on the page of runs.
	for _, run := range v.runs {
		if run.GameDay == "" {
			continue
		}
		if len(o.Runs) == 50 {
			o.More = true
			break
		}
		o.Runs = append(o.Runs, v.runRow(run))
	}
	o.Sub = plural(len(o.Plans), "schedule", "schedules") + ", " + slo.Count(int64(len(v.running()))) + " running. Each schedule runs in its own zone."
	s.show(w, v, http.StatusOK, "gamedays", Page{Title: "Game days", Topics: topicDrills, Crumbs: []Link{{Name: "Game days"}}}, o)
}

func (v view) plan(sc injector.Schedule) Plan {
	p := Plan{Title: sc.Title, Cron: sc.Cron, Zone: sc.Zone, Words: cronWords(sc.Cron), Off: !sc.Enabled}
	if p.Title == "" {
		p.Title = sc.GameDay
	}
	if p.Zone == "" {
		p.Zone = "UTC"
	}
	names := sc.Scenarios
	if len(names) == 0 && sc.Scenario != "" {
		names = []string{sc.Scenario}
	}
	p.Scenarios = strings.Join(names, ", ")
	if sc.GrantPPM > 0 {
		p.Grant = "approved by itself while a run spends at most " + slo.Percent(sc.GrantPPM) + " of the budget"
	} else {
		p.Grant = "each run waits for an approval"
	}
	p.Next = v.coming(sc)
	for _, occ := range sc.Last {
		d := Decision{Time: v.short(occ.ScheduledFor), Skipped: occ.Skipped != "", Text: "started"}
		if d.Skipped {
			d.Text = "skipped: " + spaced(occ.Skipped)
			if occ.Detail != "" {
				d.Text = "skipped: " + occ.Detail
			}
		} else if len(occ.Runs) > 0 {
			d.Link = runHref(occ.Runs[0])
		}
		p.Last = append(p.Last, d)
		if len(p.Last) == 3 {
			break
		}
	}
	for _, run := range v.runs {
		if run.ID == sc.LastRun {
			p.LastRun = new(v.runRow(run))
		}
	}
	return p
}

// coming are the next runs. What the scheduler has stored is the truth; the ones
// after it are computed by the scheduler's own calendar, and left out where that
// does not lead to the stored one.
func (v view) coming(sc injector.Schedule) []Coming {
	if !sc.Enabled || sc.NextAt.IsZero() {
		return nil
	}
	calendar, err := cron.Parse(cron.Spec{Cron: sc.Cron, Zone: sc.Zone}, v.now)
	if err != nil {
		return []Coming{v.comes(cron.Due{UTC: sc.NextAt, Local: sc.NextAt.In(v.zone)})}
	}
	due := calendar.Preview(sc.NextAt.Add(-1), 5)
	if len(due) == 0 || !due[0].UTC.Equal(sc.NextAt) {
		due = []cron.Due{{UTC: sc.NextAt, Local: sc.NextAt.In(calendar.Location())}}
	}
	var out []Coming
	for i, d := range due {
		if i > 0 && d.UTC.Sub(v.now) > 366*24*time.Hour {
			break // the next years of a yearly schedule tell nobody anything
		}
		out = append(out, v.comes(d))
	}
	return out
}

func (v view) comes(d cron.Due) Coming {
	layout := "Mon 2 Jan 15:04"
	if d.Local.Year() != v.now.In(d.Local.Location()).Year() {
		layout = "Mon 2 Jan 2006 15:04"
	}
	return Coming{Local: Time{v.iso(d.UTC), d.Local.Format(layout)}, UTC: Time{v.iso(d.UTC), d.UTC.UTC().Format("15:04Z")}, In: v.in(d.UTC), Note: d.Note}
}
