package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"breakwater/injector"
	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/openslo"
)

// Setup is what takes an empty installation to its first promise and its first drill.
type Setup interface {
	// Gateways are those that have asked for their plan.
	Gateways(ctx context.Context) ([]injector.Gateway, error)
	// Place says where documents are read from.
	Place() DocumentPlace
	// Write checks a document together with those that are there, with the parsers that
	// read them at a start, enters it in the audit, and puts it there under a name that
	// no file has; then it holds. A mistake is conf.Mistakes.
	Write(ctx context.Context, actor, name, text string) (path string, err error)
	// Check reads a document of a gateway; a mistake is conf.Mistakes.
	Check(name, text string) error
	// Issue makes a token for a gateway.
	Issue(ctx context.Context, actor, name string) (secret string, err error)
}

// DocumentPlace is where control reads documents from.
type DocumentPlace struct {
	Path string
	// Closed says why nothing can be written there; "": it can be tried.
	Closed string
	// Control is the address by which a gateway reaches control.
	Control string
}

// watchSetup is how long after somebody looked at the setup it is kept live.
const watchSetup = 15 * time.Minute

// setupWatch is the last time that somebody looked at the setup.
type setupWatch struct{ at atomic.Int64 }

const topicSetup = "setup"

// SetupStep is one step with how it stands.
type SetupStep struct {
	N, Title, Done string
	Here           bool
}

// GatewayRow is one gateway that reported.
type GatewayRow struct {
	Name, Seen string
	Live       bool
}

// ServiceRow is a service that gateways count, with what they saw.
type ServiceRow struct {
	Name, Requests, Failures, Success string
	Chosen                            bool
	valid, bad                        int64
}

// TargetRow is a target beside what was seen.
type TargetRow struct {
	Value, Text, Allowed, Spent string
	Chosen, Missed              bool
}

type setupView struct {
	Sub, Trouble, Said string
	Steps              []SetupStep
	At                 int // the step that is open; 4: all are done
	MayWrite, MayIssue bool
	Place              DocumentPlace
	Gateways           []GatewayRow
	Secret, Command    string
	GatewayName        string
	Serves, Address    string // what the gateway stands before, and where that answers
	GatewayDocument    string
	Services           []ServiceRow
	Service, Owner     string
	Targets            []TargetRow
	Why, Span          string
	Document, File     string
	Drill              *setupDrill
	Problems           []Problem
	Slow               bool // a gateway is there and nothing was counted
}

// setupState is how far an installation is, by what is there. Nothing else keeps it.
type setupState struct {
	gateways  []injector.Gateway
	schedules []injector.Schedule
	trouble   string
}

// seenFor is how far back the setup looks at traffic.
const seenFor = 24 * time.Hour

func (s *Server) setupState(r *http.Request, v view) (st setupState) {
	var err error
	if st.gateways, err = s.cfg.Setup.Gateways(r.Context()); err != nil {
		st.trouble = s.read(v, "Gateways", err)
	}
	if st.schedules, err = s.cfg.Drills.Schedules(r.Context()); err != nil {
		st.trouble = s.read(v, "Schedules", err)
	}
	return st
}

// countedServices are those that gateways report, the busiest first.
func (s *Server) countedServices(r *http.Request, v view) ([]ServiceRow, string) {
	routes, err := s.cfg.Traffic.RetryRoutes(r.Context(), v.now.Add(-seenFor), v.now.Add(time.Minute))
	by := map[string]*ServiceRow{}
	for _, x := range routes {
		if x.Service == "" || !s.cfg.Covers(r, x.Service) {
			continue
		}
		row := by[x.Service]
		if row == nil {
			row = &ServiceRow{Name: x.Service}
			by[x.Service] = row
		}
		row.valid, row.bad = row.valid+x.Tally.Good+x.Tally.Bad, row.bad+x.Tally.Bad
	}
	var out []ServiceRow
	for _, row := range by {
		row.Requests, row.Failures, row.Success = slo.Count(row.valid), slo.Count(row.bad), slo.Share(row.valid-row.bad, row.valid)
		out = append(out, *row)
	}
	slices.SortFunc(out, func(a, b ServiceRow) int { return cmp.Or(cmp.Compare(b.valid, a.valid), cmp.Compare(a.Name, b.Name)) })
	return out, s.read(v, "What gateways count", err)
}

// step is the first one that is not done.
func (st setupState) step(v view) int {
	switch {
	case len(v.services) == 0 && len(st.gateways) == 0:
		return 1
	case len(v.services) == 0:
		return 2
	case !slices.ContainsFunc(st.schedules, func(x injector.Schedule) bool { return x.Enabled && !x.NextAt.IsZero() }):
		return 3
	}
	return 4
}

func (s *Server) setup(w http.ResponseWriter, r *http.Request) {
	s.setupPage(w, r, http.StatusOK, setupView{})
}

// setupPage shows the step that comes next. What is set in o already is what somebody
// typed, or what came of it.
func (s *Server) setupPage(w http.ResponseWriter, r *http.Request, status int, o setupView) {
	v := s.look(r)
	s.watched.at.Store(v.now.UnixNano())
	st := s.setupState(r, v)
	o.At, o.Place = st.step(v), s.cfg.Setup.Place()
	o.MayWrite, o.MayIssue = s.cfg.MayLift(r), mayIssue(r)
	if o.Trouble == "" {
		o.Trouble = st.trouble
	}
	for _, g := range st.gateways {
		o.Gateways = append(o.Gateways, GatewayRow{g.Name, v.in(g.At), g.Live(v.now)})
	}
	o.Steps = []SetupStep{{N: "1", Title: v.say("Where traffic is")}, {N: "2", Title: v.say("The first promise")}, {N: "3", Title: v.say("The first drill")}}
	for i := range o.Steps {
		o.Steps[i].Here = o.At == i+1
	}
	if o.At > 1 {
		o.Steps[0].Done = v.count(len(st.gateways), "gateway reports", "gateways report")
	}
	if o.At > 2 {
		first := v.services[0].worst().Objective
		o.Steps[1].Done = v.say("%s, %s", title(first), slo.Target(first.TargetPPB))
	}
	if o.At > 3 {
		o.Steps[2].Done = s.next(v)
	}
	said := map[string]string{"promised": v.say("The promise holds from now on. It is weighed within seconds."), "drilled": v.say("The drill is planned. Its game day stands with its next runs.")}
	if o.Said == "" {
		o.Said = said[r.URL.Query().Get("said")]
	}
	o.Sub = v.text(map[int]string{1: v.say("Step 1 of 3."), 2: v.say("Step 2 of 3."), 3: v.say("Step 3 of 3."), 4: v.say("All three steps are done.")}[o.At], v.say("Each is told from what is there: leave and come back."))
	switch o.At {
	case 1:
		if o.GatewayName == "" {
			o.GatewayName = "gateway-1"
		}
		if o.Secret != "" {
			o.Command, o.GatewayDocument = gatewayCommand(o.GatewayName, o.Place.Control, o.Secret), gatewayDocument(o.Serves, o.Address)
		}
	case 2:
		s.setupPromise(r, v, &o)
	case 3:
		s.setupDrill(r, v, &o)
	}
	s.show(w, v, status, "setup", Page{Title: "Setup", Topics: topicSetup, Crumbs: []Link{{Name: "Setup"}}}, o)
}

// gatewayCommand starts a gateway that reports here. The token goes by the
// environment: arguments can be read by every user of a machine.
func gatewayCommand(name, control, secret string) string {
	return "BREAKWATER_TOKEN=" + secret + " breakwater gateway --name " + name + " --config gw.yaml --control " + control
}

// gatewayDocument is a small document for a gateway before one service: all requests
// go there, and what may be asked again is, once.
func gatewayDocument(service, address string) string {
	return fmt.Sprintf(`apiVersion: breakwater/v1
kind: Upstream
name: %[1]s
endpoints:
  - {address: %[2]s}
---
apiVersion: breakwater/v1
kind: Route
name: %[3]s
service: %[1]s
match: {path: "/*"}
upstream: %[1]s
timeout: 10s
retry:
  enabled: true
  max_retries: 1
  per_try_timeout: 3000ms
  retry_on_status: [502, 503, 504]
  backoff_base: 100ms
  fallback_strategy: pass_through
`, yamlFlow(service), yamlQuoted(address), yamlFlow(clipName(service+"-all")))
}

// mayIssue reports whether who asks may make tokens.
func mayIssue(r *http.Request) bool { return administers(auth.From(r.Context())) }

// offeredTargets are offered, the strictest last.
func offeredTargets() []string { return []string{"99", "99.5", "99.9", "99.95", "99.99"} }

// suggested is the strictest target of which what was seen spends at most half: a
// promiseText that is broken on its first day teaches people to look away. ok is false
// where too little was seen to tell.
func suggested(valid, bad int64) (target string, ok bool) {
	target = offeredTargets()[0]
	for _, t := range offeredTargets() {
		ppb, _ := slo.ParseTarget(t) // the list is ours
		allowed := allowedOf(valid, ppb)
		if allowed >= 1 && 2*bad <= allowed {
			target, ok = t, true
		}
	}
	return target, ok
}

// allowedOf is how many of valid requests may fail, as the budget has it.
func allowedOf(valid, targetPPB int64) int64 {
	return slo.Weigh(slo.Objective{TargetPPB: targetPPB, Window: 30 * 24 * time.Hour}, slo.Tally{Good: valid}).Allowed
}

// setupPromise offers a promise for a service that gateways count.
func (s *Server) setupPromise(r *http.Request, v view, o *setupView) {
	var trouble string
	o.Services, trouble = s.countedServices(r, v)
	if o.Trouble == "" {
		o.Trouble = trouble
	}
	if len(o.Services) == 0 {
		o.Slow = true
		return
	}
	asked := r.FormValue("service")
	at := max(slices.IndexFunc(o.Services, func(x ServiceRow) bool { return x.Name == asked }), 0)
	o.Services[at].Chosen = true
	svc := o.Services[at]
	o.Service, o.Span = svc.Name, v.lasting(seenFor)
	target, sure := suggested(svc.valid, svc.bad)
	why := v.say("So many fail that even %s\u202f%% would be broken soon: see why before anything is promised, or begin with that.", target)
	if sure {
		why = v.say("%s\u202f%% is the strictest target here of whose failures that is at most half.", target)
	} else if 2*svc.bad <= svc.valid/100+1 {
		why = v.say("Those are too few (%s) to suggest a strict one: begin with %s\u202f%%.", svc.Requests, target)
	}
	o.Why = v.text(v.say("%s of %s requests of %s failed in the last %s, %s were good.", svc.Failures, svc.Requests, svc.Name, o.Span, svc.Success), why)
	chosen := cmp.Or(r.FormValue("target"), target)
	list := offeredTargets()
	if !slices.Contains(list, chosen) {
		list = append(list, chosen)
	}
	for _, t := range list {
		row := TargetRow{Value: t, Text: t + "\u202f%", Chosen: t == chosen}
		if ppb, err := slo.ParseTarget(t); err == nil {
			b := slo.Weigh(slo.Objective{TargetPPB: ppb, Window: 30 * 24 * time.Hour}, slo.Tally{Good: svc.valid - svc.bad, Bad: svc.bad})
			row.Allowed, row.Spent, row.Missed = slo.Count(b.Allowed), slo.SpentPercent(b.SpentPPM), b.Remaining < 0
		}
		o.Targets = append(o.Targets, row)
	}
	o.Owner = strings.TrimSpace(r.FormValue("owner"))
	o.Document = promiseText(o.Service, chosen, o.Owner)
	o.File = "slo-" + o.Service + ".yaml"
}

// promiseText is a promise as a document; one with a mistake is shown all the same.
func promiseText(service, target, owner string) string {
	ppb, err := slo.ParseTarget(target)
	if err != nil {
		return ""
	}
	return openslo.Export(slo.Objective{ID: clipName(service + "-availability"), Service: service, Title: sentenceCase(service) + " answers", Owner: owner, TargetPPB: ppb, Window: 30 * 24 * time.Hour})
}

// clipName keeps a name within what names may have.
func clipName(s string) string { return strings.TrimRight(s[:min(len(s), 63)], ".-_") }

// SetupOffer is the way to the setup, where something of it is missing.
type SetupOffer struct{ Text, Next string }

// setupOffer is nil where everything is there, or cannot be read.
func (s *Server) setupOffer(v view) *SetupOffer {
	schedules, err := s.cfg.Drills.Schedules(v.r.Context())
	if err != nil || v.away != "" {
		return nil
	}
	st := setupState{schedules: schedules}
	if len(v.services) == 0 {
		if st.gateways, err = s.cfg.Setup.Gateways(v.r.Context()); err != nil {
			return nil
		}
	}
	switch st.step(v) {
	case 1:
		return &SetupOffer{v.say("Nothing is watched yet. Three steps lead to a first promise and a first drill."), v.say("Connect a gateway")}
	case 2:
		return &SetupOffer{v.say("A gateway reports; nothing is promised yet."), v.say("Make the first promise")}
	case 3:
		return &SetupOffer{v.say("No drill is planned yet."), v.say("Plan the first drill")}
	}
	return nil
}

// setupNews tells open pages of the setup that a gateway has come, or what it counts.
// It asks only while somebody looks at one.
func (s *Server) setupNews(ctx context.Context) []string {
	now := s.cfg.Now()
	if now.Sub(time.Unix(0, s.watched.at.Load())) > watchSetup {
		return nil
	}
	gateways, err := s.cfg.Setup.Gateways(ctx)
	if err != nil {
		return nil
	}
	var seen []any
	for _, g := range gateways {
		seen = append(seen, g.Name, g.Live(now))
	}
	routes, err := s.cfg.Traffic.RetryRoutes(ctx, now.Add(-time.Hour), now.Add(time.Minute))
	if err != nil {
		return nil
	}
	for _, x := range routes {
		seen = append(seen, x.Service)
	}
	schedules, err := s.cfg.Drills.Schedules(ctx)
	if err != nil {
		return nil
	}
	return s.hub.news(topicSetup, fingerprint(append(seen, len(schedules))...))
}
