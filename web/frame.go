package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"breakwater/injector"
	"breakwater/slo"
)

// frame fills what surrounds the content: navigation, notices, Stop all.
func (s *Server) frame(w http.ResponseWriter, v view, p *Page) {
	p.Env, p.Now, p.Zone = s.cfg.Env, v.clock(v.now), v.zoneName()
	p.ZoneTitle = v.zone.String()
	p.Wall = p.Wall || v.r.URL.Query().Get("tv") == "1"
	p.Fragment = v.r.URL.Query().Get("fragment") == "1"
	p.Query = v.r.URL.Query().Get("q")
	p.Theme = theme(w, v.r)
	p.Themes = themes(v.r, p.Theme)
	s.keepLang(w, v.r)
	p.Langs = s.langLinks(v.r, v.lang)
	if p.Topics == "" {
		p.Topics = topicLedger + " " + topicDrills
	}

	running := v.active
	p.Running = strconv.Itoa(len(running))
	if v.runsErr != nil {
		p.Running = "?" // not 0: something may be running that cannot be seen
	}
	frozen := 0
	for _, svc := range v.services {
		if svc.worst().Level == slo.Frozen {
			frozen++
		}
	}
	p.Nav = []Link{
		{Name: "Now", Href: "/now", Icon: "now"},
		{Name: "Overview", Href: "/", Icon: "grid"},
		{Name: "SLOs", Href: "/slos", Icon: "slo", Head: "Reliability"},
		{Name: "Alerts", Href: "/alerts", Icon: "bell"},
		{Name: "Runs", Href: "/runs", Icon: "play", Head: "Chaos", Count: some(len(running))},
		{Name: "Scenarios", Href: "/scenarios", Icon: "list"},
		{Name: "Game days", Href: "/gamedays", Icon: "cal"},
		{Name: "Findings", Href: "/findings", Icon: "bug"},
		{Name: "Readiness", Href: "/readiness", Icon: "check"},
		{Name: "Gate and freeze", Href: "/gate", Icon: "gate", Head: "Release", Count: some(frozen)},
		{Name: "Breakers", Href: "/breakers", Icon: "breaker", Head: "Traffic"},
		{Name: "Retries", Href: "/retries", Icon: "retry"},
		{Name: "Requests", Href: "/requests", Icon: "find"},
		{Name: "Simulator", Href: "/simulator", Icon: "sim"},
	}
	p.Nav, p.Who = append(p.Nav, adminNav(v.r)...), whoAsks(v.r)
	p.Phone = []Link{
		{Name: "Now", Href: "/now", Icon: "now"},
		{Name: "Overview", Href: "/", Icon: "grid"},
		{Name: "SLOs", Href: "/slos", Icon: "slo"},
		{Name: "Runs", Href: "/runs", Icon: "play"},
		{Name: "More", Href: "/menu", Icon: "more"},
	}
	for _, links := range [][]Link{p.Nav, p.Phone} {
		for i := range links {
			links[i].Here = here(v.r.URL.Path, links[i].Href)
		}
	}
	if !v.halt.At.IsZero() {
		p.Notices = append(p.Notices, v.halted(s.cfg.MayLift(v.r)))
	}
	p.Notices = append(p.Notices, v.notices(frozen, running)...)
}

func some(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func here(path, href string) bool {
	if href == "/" {
		return path == "/" || strings.HasPrefix(path, "/services/")
	}
	return path == href || strings.HasPrefix(path, href+"/")
}

// halted stands on every page until somebody lifts the halt: otherwise nobody would
// know why nothing starts any more.
func (v view) halted(mayLift bool) Notice {
	since := v.halt.At.In(v.zone).Format("15:04")
	if !sameDay(v.halt.At.In(v.zone), v.now.In(v.zone)) {
		since = v.day(v.halt.At).Text
	}
	n := Notice{Class: "emergency", Icon: "s-emergency", Lead: v.say("Everything is halted since %s by %s;", since, v.halt.Actor), Text: v.say("nothing starts until it is lifted.")}
	if mayLift {
		n.Post = &Link{Name: "Lift the halt", Href: "/halt/lift"}
	} else {
		n.Text = v.text(n.Text, v.say("An operator can lift it."))
	}
	return n
}

func (v view) notices(frozen int, running []injector.Run) []Notice {
	var out []Notice
	if v.away != "" {
		out = append(out, Notice{Class: "warn", Icon: "s-warn", Lead: v.say("Database away since %s.", v.awaySince), Text: v.away})
	}
	if frozen > 0 {
		st := v.services[0].worst() // worst first, and frozen is the worst
		n := Notice{Class: "frozen", Icon: "s-frozen", Lead: v.say("%s is frozen,", st.Objective.Service),
			Text: v.text(v.say("%s of budget spent.", slo.SpentPercent(st.Budget.SpentPPM)), v.thaw(st)), Link: &Link{Name: "Gate", Href: "/gate"}}
		if frozen > 1 {
			n.Lead = v.count(frozen, "service is frozen,", "services are frozen,")
			n.Text = v.say("%s most: %s", st.Objective.Service, n.Text)
		}
		out = append(out, n)
	}
	if len(running) > 0 {
		r := running[0]
		n := Notice{Class: "chaos", Icon: "s-chaos", Lead: v.say("Experiment running."),
			Text: v.say("%s, %s.", r.Title, v.phase(r)), Link: &Link{Name: "Watch", Href: runHref(r.ID)}}
		if len(running) > 1 {
			n.Lead = v.say("%d experiments running.", len(running))
			n.Link = &Link{Name: "Watch", Href: "/runs"}
		}
		out = append(out, n)
	}
	return out
}

// thaw says when a freeze ends, as far as that is known.
func (v view) thaw(st *slo.Status) string {
	if st.ThawAt.IsZero() {
		return v.say("No thaw in sight.")
	}
	return v.say("Thaws %s at best.", v.day(st.ThawAt).Text)
}

// phase is where a run stands: "inject 7:12 of 10:00".
func (v view) phase(r injector.Run) string {
	switch r.State {
	case injector.Baseline:
		return v.say("baseline %s of %s", clock(v.now.Sub(r.BaselineAt)), clock(r.BaselineFor))
	case injector.Injecting:
		return v.say("inject %s of %s", clock(v.now.Sub(r.InjectAt)), clock(r.InjectFor))
	case injector.Recovering:
		return v.say("recover %s of %s", clock(v.now.Sub(r.RecoverAt)), clock(r.RecoverFor))
	}
	return v.word(string(r.State))
}

func serviceHref(name string) string { return "/services/" + url.PathEscape(name) }
func runHref(id string) string       { return "/runs/" + url.PathEscape(id) }

// theme is the reader's choice: the query sets it and a cookie keeps it, so that
// the choice needs no script.
func theme(w http.ResponseWriter, r *http.Request) string {
	known := func(t string) bool { return t == "light" || t == "dark" }
	switch asked := r.URL.Query().Get("theme"); {
	case known(asked):
		http.SetCookie(w, &http.Cookie{Name: "theme", Value: asked, Path: "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode})
		return asked
	case asked == "system":
		http.SetCookie(w, &http.Cookie{Name: "theme", Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
		return ""
	}
	if c, err := r.Cookie("theme"); err == nil && known(c.Value) {
		return c.Value
	}
	return ""
}

func themes(r *http.Request, now string) []Link {
	if now == "" {
		now = "system"
	}
	return []Link{
		{Name: "Theme: system", Href: with(r, "theme", "system"), Icon: "auto", Here: now == "system"},
		{Name: "Theme: light", Href: with(r, "theme", "light"), Icon: "sun", Here: now == "light"},
		{Name: "Theme: dark", Href: with(r, "theme", "dark"), Icon: "moon", Here: now == "dark"},
	}
}

// with is the same page with one parameter changed; "" removes it.
func with(r *http.Request, key, value string) string {
	q := r.URL.Query()
	q.Del("theme")
	q.Del("lang")
	q.Del("fragment")
	q.Del(key)
	if value != "" {
		q.Set(key, value)
	}
	for k := range q {
		if !slices.Contains([]string{"r", "q", "state", "view", "slo", "tv", "theme", "lang", "all", "service", "env", "target", "window", "severity", "kind"}, k) {
			q.Del(k)
		}
	}
	return (&url.URL{Path: ownPath(r.URL.Path), RawPath: ownPath(r.URL.RawPath), RawQuery: q.Encode()}).String()
}

// ownPath is a path that cannot be read as the name of another host: a browser takes what
// stands behind two slashes, or a backslash, for one, and pages link to themselves even
// where there is no such page.
func ownPath(path string) string {
	if path == "" {
		return ""
	}
	return "/" + strings.TrimLeft(path, `/\`)
}
