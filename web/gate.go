package web

import (
	"net/http"
	"strings"

	"breakwater/slo"
	"breakwater/slo/gate"
)

// VerdictRow is the gate's answer for one service.
type VerdictRow struct {
	Name, Href       string
	Mark, Chip       Chip
	Bar              Bar
	Left             string
	Mute             bool
	Reason, ReasonID string
	Thaw             Time
	ThawIn           string
}

// Freeze is one service that may not ship, with the way out.
type Freeze struct {
	Name, Href, In, Thaw, Why, Since, Spent string
}

type gateView struct {
	Sub, Trouble string
	Rows         []VerdictRow
	Freezes      []Freeze // the first few; the table has them all
	MoreFrozen   string
	Passes       string
	More         Link
}

func (s *Server) gate(w http.ResponseWriter, r *http.Request) {
	v := s.look(r)
	var o gateView
	frozen := 0
	counts := map[string]int{}
	all := r.URL.Query().Get("all") == "1" || len(v.services) <= 30
	for i, svc := range v.services {
		st := svc.worst()
		row := VerdictRow{Name: svc.Name, Href: serviceHref(svc.Name), Chip: statusChip(st), Bar: budgetBar(st, "thin"), Left: slo.Percent(st.Budget.RemainingPPM)}
		if st.Budget.NoData {
			row.Left, row.Mute = "no data", true
		}
		d, err := s.cfg.Gate.Decide(r.Context(), svc.Name)
		if err != nil {
			o.Trouble = s.read(r.Context(), "Some verdicts", err)
			d = gate.Decision{Decision: gate.Unclear}
		}
		row.Mark, row.Reason, row.ReasonID = verdictMark(d.Decision), verdictText(d, st), d.ReasonCode
		if d.ThawAt != nil {
			row.Thaw, row.ThawIn = v.day(*d.ThawAt), v.in(*d.ThawAt)
		}
		counts[row.Mark.Text]++
		if all || i < 25 {
			o.Rows = append(o.Rows, row)
		}
		if st.Level == slo.Frozen {
			frozen++
			if len(o.Freezes) < 3 {
				o.Freezes = append(o.Freezes, v.freeze(st))
			}
		}
	}
	if n := frozen - len(o.Freezes); n > 0 {
		o.MoreFrozen = plural(n, "more service is frozen", "more services are frozen") + "; the table has all of them, worst first."
	}
	if n := len(v.services) - len(o.Rows); n > 0 {
		o.More = Link{Name: "Show all " + slo.Count(int64(len(v.services))), Href: with(r, "all", "1"), Count: plural(n, "more service", "more services") + ", better off than these."}
	}
	var kinds []string
	for _, p := range gate.DefaultPolicy().Passes {
		kinds = append(kinds, spaced(string(p.Kind)))
	}
	o.Passes = strings.Join(kinds, ", ")
	var parts []string
	for _, word := range []string{"allow", "deny", "hold", "unknown"} {
		if n := counts[word]; n > 0 {
			parts = append(parts, slo.Count(int64(n))+" "+word)
		}
	}
	o.Sub = "No service yet."
	if len(parts) > 0 {
		o.Sub = strings.Join(parts, ", ") + "."
	}
	s.show(w, v, http.StatusOK, "gate", Page{Title: "Gate and freeze", Topics: topicLedger, Crumbs: []Link{{Name: "Gate and freeze"}}}, o)
}

// verdictText is the first reason, without the name of the objective that stands
// beside it anyway.
func verdictText(d gate.Decision, st slo.Status) string {
	if len(d.Reasons) > 0 {
		return strings.TrimPrefix(d.Reasons[0], st.Objective.ID+": ")
	}
	return spaced(d.ReasonCode)
}

func (v view) freeze(st slo.Status) Freeze {
	f := Freeze{Name: st.Objective.Service, Href: serviceHref(st.Objective.Service), Why: st.Reason, Since: v.short(st.Since).Text,
		Spent: slo.SpentPercent(st.Budget.SpentPPM), In: "not yet", Thaw: "No thaw in sight: the failures that must leave the window are too recent, or still happening."}
	if !st.ThawAt.IsZero() {
		f.In = strings.TrimPrefix(v.in(st.ThawAt), "in ")
		f.Thaw = "until the thaw, " + v.day(st.ThawAt).Text + ", if nothing else fails."
	}
	return f
}
