package web

import (
	"net/http"
	"strings"

	"breakwater/slo"
	"breakwater/slo/freeze"
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
	Name, Href, In, Thaw, Why, Since, Spent, Passes string
}

type gateView struct {
	Sub, Trouble, Said string
	Tabs               []Link
	Tab                string
	Take               map[string]Take
	Rows               []VerdictRow
	Freezes            []Freeze // the first few; the table has them all
	MoreFrozen         string
	More               Link
	Protect            ProtectPart
	Deploys            DeployPart
	Past               PastPart
	Log                LogPart
	Glass              GlassPart
	Quarters           QuarterPart
	Policy             PolicyPart
	Refused            Refused
}

// gateTabs are the parts of the page; what each shows is read only where it is shown.
var gateTabs = [...]struct{ key, name, title string }{
	{"", phrase("Verdicts"), phrase("Gate and freeze")}, {"decisions", phrase("Decisions"), phrase("Decisions of the gate")}, {"overrides", phrase("Break glass"), phrase("Break glass")}, {"policy", phrase("Try a policy"), phrase("Try a policy")}}

func (s *Server) gate(w http.ResponseWriter, r *http.Request, refused Refused) {
	v := s.look(r)
	q := r.URL.Query()
	o := gateView{Take: map[string]Take{}, Refused: refused}
	o.Said = map[string]string{"asked": v.say("The override is asked for; somebody else must grant it."), "granted": v.say("The override is granted."), "revoked": v.say("The override is revoked."), "saved": v.say("The policy is in force.")}[q.Get("said")]
	for _, table := range []string{"verdicts", "measures", "deploys", "freezes", "decisions", "overrides", "quarters"} {
		o.Take[table] = take(r, table)
	}
	view := q.Get("view")
	if r.URL.Path == "/gate/overrides" {
		view = "overrides"
	}
	if table := q.Get("table"); q.Get("format") != "" {
		if of := map[string]string{"decisions": "decisions", "overrides": "overrides", "quarters": "overrides"}[table]; of != "" {
			view = of
		}
	}
	title := ""
	for _, t := range gateTabs {
		href := "/gate"
		if t.key != "" {
			href += "?view=" + t.key
		}
		if t.key == view {
			o.Tab, title = t.key, t.title
		}
		o.Tabs = append(o.Tabs, Link{Name: t.name, Href: href, Here: t.key == view})
	}
	if title == "" {
		o.Tabs[0].Here, title = true, gateTabs[0].title
	}
	var sheets []sheet
	switch o.Tab {
	case "decisions":
		sheets = s.gateLog(v, &o)
	case "overrides":
		sheets = append(s.breakGlass(v, &o), s.quarters(v, &o.Quarters))
	case "policy":
		s.tryPolicy(v, &o)
		if s.policyFile(w, v, o.Policy) {
			return
		}
	default:
		sheets = s.verdicts(v, &o)
	}
	if len(sheets) > 0 && s.exported(w, v, sheets...) {
		return
	}
	s.show(w, v, refused.code(), "gate", Page{Title: title, Topics: refused.topics(topicLedger), Crumbs: []Link{{Name: "Gate and freeze"}}}, o)
}

// verdicts fills the first part: what may go out now, what protects, what was frozen.
func (s *Server) verdicts(v view, o *gateView) []sheet {
	r := v.r
	frozen := 0
	counts := map[string]int{}
	out := sheet{name: "verdicts", columns: []string{"service", "env", "decision", "state", "reason_code", "remaining_ppm", "thaw_at", "reason"}}
	policies := s.cfg.Releases.Policies()
	all := r.URL.Query().Get("all") == "1" || len(v.services) <= 30
	for i, svc := range v.services {
		st := svc.worst()
		row := VerdictRow{Name: svc.Name, Href: serviceHref(svc.Name), Chip: statusChip(st), Bar: v.budgetBar(st, "thin"), Left: slo.Percent(st.Budget.RemainingPPM)}
		if st.Budget.NoData {
			row.Left, row.Mute = v.say("no data"), true
		}
		d, err := s.cfg.Gate.Decide(r.Context(), svc.Name)
		if err != nil {
			o.Trouble = s.read(v, "Some verdicts", err)
			d = gate.Decision{Decision: gate.Unclear}
		}
		row.Mark, row.Reason, row.ReasonID = verdictMark(d.Decision), v.tell(verdictText(d, st)), d.ReasonCode
		line := []field{txt(svc.Name), txt(st.Env), txt(string(d.Decision)), txt(string(d.State)), txt(d.ReasonCode), {}, {}, txt(strings.Join(d.Reasons, " "))}
		if !st.Budget.NoData {
			line[5] = num(st.Budget.RemainingPPM)
		}
		if d.ThawAt != nil {
			row.Thaw, row.ThawIn, line[6] = v.day(*d.ThawAt), v.in(*d.ThawAt), instant(*d.ThawAt)
		}
		out.rows = append(out.rows, line)
		counts[row.Mark.Text]++
		if all || i < 25 {
			o.Rows = append(o.Rows, row)
		}
		if st.Level == slo.Frozen {
			frozen++
			if len(o.Freezes) < 3 {
				f := v.freeze(st)
				f.Passes = v.passes(freeze.For(policies, svc.Name, st.Env))
				o.Freezes = append(o.Freezes, f)
			}
		}
	}
	if n := frozen - len(o.Freezes); n > 0 {
		o.MoreFrozen = v.say("%s; the table has all of them, worst first.", v.count(n, "more service is frozen", "more services are frozen"))
	}
	if n := len(v.services) - len(o.Rows); n > 0 {
		o.More = Link{Name: v.say("Show all %s", slo.Count(int64(len(v.services)))), Href: with(r, "all", "1"), Count: v.say("%s, better off than these.", v.count(n, "more service", "more services"))}
	}
	var parts []string
	for _, word := range []string{"allow", "deny", "hold", "unknown"} {
		if n := counts[word]; n > 0 {
			parts = append(parts, v.say("%s %s", slo.Count(int64(n)), v.word(word)))
		}
	}
	o.Sub = v.say("No service yet.")
	if len(parts) > 0 {
		o.Sub = v.say("%s.", v.list(parts...))
	}
	return []sheet{out, s.protecting(v, &o.Protect), s.deploying(v, &o.Deploys), s.pastFreezes(v, &o.Past)}
}

// passes names the kinds that a policy lets through a freeze.
func (l lang) passes(p freeze.Policy) string {
	var kinds []string
	for _, x := range p.Passes {
		kinds = append(kinds, l.word(spaced(string(x.Kind))))
	}
	if len(kinds) == 0 {
		return l.say("nothing, without an override")
	}
	return l.say("%s, if it is proven to be that", l.list(kinds...))
}

// verdictText is the first reason, without the name of the objective that stands
// beside it anyway.
func verdictText(d gate.Decision, st *slo.Status) string {
	if len(d.Reasons) > 0 {
		return strings.TrimPrefix(d.Reasons[0], st.Objective.ID+": ")
	}
	return spaced(d.ReasonCode)
}

func (v view) freeze(st *slo.Status) Freeze {
	f := Freeze{Name: st.Objective.Service, Href: serviceHref(st.Objective.Service), Why: v.tell(st.Reason), Since: v.short(st.Since).Text,
		Spent: slo.SpentPercent(st.Budget.SpentPPM), In: v.say("not yet"), Thaw: v.say("No thaw in sight: the failures that must leave the window are too recent, or still happening.")}
	if !st.ThawAt.IsZero() {
		f.In = v.lasting(st.ThawAt.Sub(v.now))
		f.Thaw = v.say("until the thaw, %s, if nothing else fails.", v.day(st.ThawAt).Text)
	}
	return f
}
