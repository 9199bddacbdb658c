package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"

	"breakwater/injector"
	"breakwater/slo"
)

// pages are the parsed templates: a set for each language, in it each page with its
// own "content".
type pages struct {
	langs []lang
	sets  map[string]map[string]*template.Template // by tag, by page
}

// of is a page in a language.
func (p *pages) of(l lang, name string) *template.Template { return p.sets[l.tag()][name] }

// speaks finds a language by its tag.
func (p *pages) speaks(tag string) (lang, bool) {
	for _, l := range p.langs {
		if l.tag() == tag {
			return l, true
		}
	}
	return lang{}, false
}

func (p *pages) tags() []string {
	var tags []string
	for _, l := range p.langs {
		tags = append(tags, l.tag())
	}
	return tags
}

// carried is what the binary brings along and never changes, so that one reading
// serves every Server of a process.
type carried struct {
	assets *assets
	pages  *pages
}

var carry = sync.OnceValues(func() (carried, error) {
	a, err := loadAssets()
	if err != nil {
		return carried{}, err
	}
	p, err := parsePages(a)
	return carried{a, p}, err
})

func parsePages(a *assets) (*pages, error) {
	p := &pages{langs: []lang{{}}, sets: map[string]map[string]*template.Template{}}
	for _, l := range languages {
		c, err := readCatalogue(catalogueFiles, l.tag, l.name)
		if err != nil {
			return nil, err
		}
		p.langs = append(p.langs, lang{c})
	}
	for _, l := range p.langs {
		set, err := parseSet(a, l)
		if err != nil {
			return nil, fmt.Errorf("in %s: %w", l.tag(), err)
		}
		p.sets[l.tag()] = set
	}
	return p, nil
}

// parseSet parses every page in one language.
func parseSet(a *assets, l lang) (map[string]*template.Template, error) {
	scripts := []string{"bw-live.js", "bw-chart.js", "bw-heatmap.js", "keys.js"}
	list := func(names ...string) (urls []string, err error) {
		for _, n := range names {
			u, err := a.url(n)
			if err != nil {
				return nil, err
			}
			urls = append(urls, u)
		}
		return urls, nil
	}
	base := template.New("").Funcs(template.FuncMap{
		"asset":  a.url,
		"tongue": l.tag, "word": l.word, "of": l.of, "tell": l.tell, "shown": shown,
		"sheets": func() ([]string, error) {
			return list("tokens.css", "base.css", "kit.css", "chart.css", "vendor/uPlot.min.css", "pages.css", "more.css", "days.css", "sizes.css")
		},
		"scripts": func() ([]string, error) { return list(scripts...) },
	})
	for _, name := range []string{"layout", "sprite", "parts", "chart", "heat", "lanes", "days-parts", "drill-parts", "who", "admin-top", "signin-door", "explained"} {
		if err := parseInto(base, l, name); err != nil {
			return nil, err
		}
	}
	set := map[string]*template.Template{}
	for _, name := range append(slices.Concat(morePages(), practicePages(), drillPages(), logPages()), "overview", "service", "gamedays", "runs", "run", "gate", "menu", "trouble", "signin", "signin-password", "admin", "admin-tokens", "admin-audit", "admin-config", "admin-rollback", "admin-deliveries", "admin-database", "admin-doctor") {
		t, err := base.Clone()
		if err == nil {
			err = parseInto(t, l, name)
		}
		if err != nil {
			return nil, err
		}
		set[name] = t
	}
	return set, nil
}

// parseInto adds a file to a set, in the set's language.
func parseInto(t *template.Template, l lang, name string) error {
	src, err := templateFiles.ReadFile("templates/" + name + ".html")
	text := string(src)
	if err == nil && l.words != nil {
		text, err = rewrite(text, true, func(key string) (string, bool) { w, ok := l.words.text[key]; return w, ok })
	}
	if err == nil {
		_, err = t.Parse(text)
	}
	if err != nil {
		return fmt.Errorf("parse template %s: %w", name, err)
	}
	return nil
}

// Page is what the layout shows around every content.
type Page struct {
	Title, Env, Theme, Query string
	Wall, Fragment           bool // Fragment: only what <bw-live> holds
	Topics                   string
	Now                      Time
	Zone, ZoneTitle          string
	Nav, Phone, Themes       []Link
	Langs                    []Link // Head: the tag
	Crumbs                   []Link
	Notices                  []Notice
	Running                  string // runs under way, "?" if that cannot be read
	Content                  template.HTML
	Who                      *Who // nil: nobody stands before the pages
}

// Link is a place in a navigation.
type Link struct {
	Name, Href, Icon, Head, Count string
	Here                          bool
}

// Notice is one line under the header: a freeze, an experiment, a warning.
type Notice struct {
	Class, Icon, Lead, Text string
	Link                    *Link
	Post                    *Link // a form with one button
}

// view is what every handler reads first, once, so that header, notices and
// content of one answer agree.
type view struct {
	when
	r        *http.Request
	services []service
	active   []injector.Run // runs under way, newest first
	runs     []injector.Run // newest first, where lookAtRuns read them
	runsErr  error
	halt     injector.Halt
	// away says what holds while the database is out of reach; "" while it is not.
	away, awaySince string
}

// service is a service with its objectives, worst first.
type service struct {
	Name     string
	Statuses []*slo.Status
	Run      *injector.Run // under way on it
}

func (s service) worst() *slo.Status { return s.Statuses[0] }

func (s *Server) look(r *http.Request) view {
	v := view{when: when{zone: s.cfg.Zone, now: s.cfg.Now(), lang: s.lang(r)}, r: r}
	// Whoever may see some services alone sees those, on every page and in every count.
	all := s.cfg.Ledger.Statuses()
	statuses := make([]*slo.Status, 0, len(all)) // they are long, and sorted on each page
	for i := range all {
		if s.cfg.Covers(r, all[i].Objective.Service) {
			statuses = append(statuses, &all[i])
		}
	}
	slices.SortStableFunc(statuses, worseFirst)
	at := map[string]int{}
	for _, st := range statuses {
		i, ok := at[st.Objective.Service]
		if !ok {
			i = len(v.services)
			at[st.Objective.Service] = i
			v.services = append(v.services, service{Name: st.Objective.Service})
		}
		v.services[i].Statuses = append(v.services[i].Statuses, st)
	}
	v.worstLeads()
	for i, svc := range v.services {
		at[svc.Name] = i
	}
	v.active, v.runsErr = s.cfg.Drills.Active(r.Context())
	if v.runsErr != nil {
		s.cfg.Log.Warn("runs cannot be read", "err", v.runsErr)
	}
	var err error
	if v.halt, err = s.cfg.Drills.Halted(r.Context()); err != nil {
		s.cfg.Log.Warn("the halt cannot be read", "err", err)
	}
	for i := range v.active {
		if j, ok := at[v.active[i].Service]; ok && v.services[j].Run == nil {
			v.services[j].Run = &v.active[i]
		}
	}
	if since, away := s.cfg.Ledger.DatabaseAway(); away {
		v.awaySince = v.short(since).Text
		if until := v.dataUntil(); until.Text != "" {
			v.away = v.say("Figures reach until %s; gateways keep serving and send the rest later.", until.Text)
		} else {
			v.away = v.say("Nothing has been evaluated yet; gateways keep serving and send their events later.")
		}
	}
	return v
}

// lookAtRuns is look for pages that tell of runs which are over.
func (s *Server) lookAtRuns(r *http.Request) view {
	v := s.look(r)
	if v.runsErr != nil {
		return v
	}
	if v.runs, v.runsErr = s.cfg.Drills.Runs(r.Context(), 200); v.runsErr != nil {
		s.cfg.Log.Warn("runs cannot be read", "err", v.runsErr)
	}
	return v
}

// worseFirst orders by alarm, then by what is left, then by name.
func worseFirst(a, b *slo.Status) int {
	if d := alarm(a) - alarm(b); d != 0 {
		return d
	}
	if !a.Budget.NoData && a.Budget.RemainingPPM != b.Budget.RemainingPPM {
		if a.Budget.RemainingPPM < b.Budget.RemainingPPM {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Objective.Service+"\x00"+a.Objective.ID, b.Objective.Service+"\x00"+b.Objective.ID)
}

var alarms = [...]string{"frozen", "emergency", "warn", "unknown", "no data", "normal"}

func alarm(st *slo.Status) int { return slices.Index(alarms[:], statusChip(st).Text) }

// dataUntil is the oldest watermark: what every figure on the page reaches.
func (v view) dataUntil() Time {
	var until Time
	for _, svc := range v.services {
		for _, st := range svc.Statuses {
			if st.DataUntil.IsZero() {
				continue
			}
			if t := v.short(st.DataUntil); until.ISO == "" || t.ISO < until.ISO {
				until = t
			}
		}
	}
	return until
}

// show renders content into the layout and sends it in one piece, so that a
// mistake in a template is an honest 500 and never half a page.
func (s *Server) show(w http.ResponseWriter, v view, status int, name string, p Page, content any) {
	t := s.pages.of(v.lang, name)
	var body bytes.Buffer
	err := t.ExecuteTemplate(&body, "content", content)
	if err == nil {
		s.frame(w, v, &p)
		p.Content = template.HTML(body.String()) // made by the same escaping templates a line above
		body = bytes.Buffer{}
		err = t.ExecuteTemplate(&body, "layout", p)
	}
	if err != nil {
		s.cfg.Log.Error("page cannot be rendered", "page", name, "err", err)
		http.Error(w, "this page cannot be shown; the log says why", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that left is nobody's error
}

// read says that what could not be read, and logs why; "" where nothing went wrong.
func (s *Server) read(v view, what string, err error) string {
	if err == nil {
		return ""
	}
	if v.r.Context().Err() == nil {
		s.cfg.Log.Warn(what+" cannot be read", "err", err)
	}
	return v.say("%s cannot be read now.", v.word(what))
}
