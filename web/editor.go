package web

import (
	"net/http"
	"slices"
	"strings"

	"breakwater/injector"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
)

// EditField is one field of the form.
type EditField struct {
	Name, Label, Value, Placeholder string
	Options                         []Choice
	Bad                             string
	Fixed                           bool // set in the text alone
}

// EditRow is one row of a list.
type EditRow struct {
	Fields []EditField
	Remove string
	Bad    string
}

// EditPart is a part of the form.
type EditPart struct {
	Title, Note string
	Fields      []EditField
	Heads       []string
	Rows        []EditRow
	Add         string
	Wide        bool
}

// Problem is one mistake, at its place in the text.
type Problem struct {
	Place, Path, Text, Hint string
	Warning                 bool
}

// SourceLine is a line of the text with what is wrong in it.
type SourceLine struct {
	N        int
	Text     string
	Problems []Problem
	Gap      bool // lines between were left out
}

type editorView struct {
	From         string
	Parts        []EditPart
	Text, Base   string
	Told         []string
	Problems     []Problem
	Source       []SourceLine
	Preview      *PreviewView
	Hypothesis   []ExpectLine
	Stops        []string
	Guards       []string
	Dry, Refusal string
	MayStart     bool
	Trouble      string
	Lines        int
}

// maxEdit bounds what the editor takes: the text twice, and the form.
const maxEdit = 3 << 20

// editor opens the editor on a copy of a scenario, or on a small one to start from.
func (s *Server) editor(w http.ResponseWriter, r *http.Request) {
	v, from := s.look(r), r.URL.Query().Get("from")
	text, trouble := "", ""
	if from != "" {
		d, _, err := s.findDrill(r, from)
		switch {
		case d != nil:
			text = d.Text
		case err != nil:
			trouble = s.read(v, v.say("Scenario %s", from), err)
		default:
			trouble = v.say("There is no scenario %s; this is a small one to start from.", from)
		}
	}
	if text == "" {
		text = starter(v.someService(r.URL.Query().Get("service")), 50_000).text()
	}
	s.showEditor(w, r, v, http.StatusOK, draftOf(text), editorView{From: from, Trouble: trouble})
}

// someService is the one that was asked for, or the first that is known.
func (v view) someService(asked string) string {
	switch {
	case asked != "":
		return asked
	case len(v.services) > 0:
		return v.services[len(v.services)-1].Name // the healthiest
	}
	return "my-service"
}

// checkExperiment puts form and text in step and says what is wrong with them. It
// starts nothing, so whoever reads may ask, as of the API.
func (s *Server) checkExperiment(w http.ResponseWriter, r *http.Request) {
	d, o, ok := s.draft(w, r)
	if !ok {
		return
	}
	v := s.look(r)
	if r.PostFormValue("do") == "dry" {
		o.Dry = v.say("Dry run at %s: nothing was started.", v.clock(v.now).Text)
	}
	s.showEditor(w, r, v, http.StatusOK, d, o)
}

// startExperiment starts a run of what was written.
func (s *Server) startExperiment(w http.ResponseWriter, r *http.Request) {
	d, o, ok := s.draft(w, r)
	if !ok {
		return
	}
	if !s.cfg.MayLift(r) {
		o.Refusal = phrase("This takes an operator; whoever is logged in may look.")
		s.showEditor(w, r, s.look(r), http.StatusForbidden, d, o)
		return
	}
	if len(d.Told) > 0 {
		o.Refusal = phrase("Form and text were both changed. Look at what counts now, then start.")
		s.showEditor(w, r, s.look(r), http.StatusConflict, d, o)
		return
	}
	status, where, wrong := s.start(r, "application/yaml", []byte(d.Text))
	if wrong != "" {
		o.Refusal = sentence(wrong)
		if problems, _ := problemsOf(d.Text); len(problems) > 0 {
			o.Refusal = phrase("The document has mistakes; they stand at their lines.")
		}
		s.showEditor(w, r, s.look(r), status, d, o)
		return
	}
	leave(w, r, where)
}

func (s *Server) draft(w http.ResponseWriter, r *http.Request) (draft, editorView, bool) {
	r.Body = http.MaxBytesReader(w, r.Body, maxEdit)
	if err := r.ParseForm(); err != nil {
		v := s.look(r)
		s.trouble(w, v, http.StatusRequestEntityTooLarge, "Not read", v.say("The form cannot be read: %s. Go back: the browser still has what was typed.", err.Error()))
		return draft{}, editorView{}, false
	}
	return s.lang(r).postedDraft(r.PostForm), editorView{From: r.PostForm.Get("from")}, true
}

// problemsOf are the mistakes and doubts of the real parser.
func problemsOf(text string) (out conf.Mistakes, sc *scenario.Scenario) {
	set, doubts, err := scenario.Parse(conf.File{Name: "scenario.yaml", Data: []byte(text)})
	out = append(mistakesOf(err), doubts...)
	if err == nil && len(set.Scenarios) != 1 {
		out = append(out, &conf.Mistake{Line: 1, Col: 1, Text: "must hold one document of kind Scenario, got " + itoa(int64(len(set.Scenarios)))})
	} else if err == nil {
		sc = &set.Scenarios[0]
	}
	return out, sc
}

func (s *Server) showEditor(w http.ResponseWriter, r *http.Request, v view, status int, d draft, o editorView) {
	o.Text, o.Base, o.Told, o.MayStart = d.Text, d.Base, d.Told, s.cfg.MayLift(r)
	mistakes, sc := problemsOf(d.Text)
	if sc != nil {
		p, err := s.cfg.Scenarios.Preview(r.Context(), "", d.Text)
		if err != nil {
			view := s.noPreview(v, err)
			o.Preview = &view
		} else {
			o.Preview = new(v.previewView(p))
		}
		said := v.scenarioView(drillDoc{Document: injector.Document{ID: sc.ID, Service: sc.Target.Service}, Scenario: *sc})
		o.Hypothesis, o.Stops, o.Guards = said.Expects, said.Stops, said.Guards
	}
	for _, m := range mistakes {
		o.Problems = append(o.Problems, problemOf(m))
	}
	o.Source = sourceOf(d.Text, mistakes)
	o.Parts = partsOf(d, mistakes)
	o.Lines = min(max(strings.Count(d.Text, "\n")+2, 20), 60)
	if d.Broken {
		o.Told = append(o.Told, v.say("The text cannot be read, so the form stands as it was. What was changed in it is written into the text once that can be read."))
	}
	if o.Refusal != "" && status == http.StatusOK {
		status = http.StatusUnprocessableEntity
	}
	// No topic: nothing may be taken away under somebody's hands.
	s.show(w, v, status, "editor", Page{Title: "New experiment", Topics: "nothing", Crumbs: []Link{{Name: "Scenarios", Href: "/scenarios"}, {Name: "New experiment"}}}, o)
}

func problemOf(m *conf.Mistake) Problem {
	p := Problem{Path: m.Path, Text: m.Text, Hint: m.HintText, Warning: m.IsWarning}
	if m.Line > 0 {
		p.Place = itoa(int64(m.Line)) + ":" + itoa(int64(m.Col))
	}
	return p
}

// sourceOf shows the lines with mistakes, and two around each.
func sourceOf(text string, mistakes conf.Mistakes) []SourceLine {
	at := map[int][]Problem{}
	for _, m := range mistakes {
		at[max(m.Line, 1)] = append(at[max(m.Line, 1)], problemOf(m))
	}
	if len(at) == 0 {
		return nil
	}
	lines, shown, last := strings.Split(text, "\n"), []SourceLine{}, 0
	for i, line := range lines {
		n, near := i+1, false
		for off := -2; off <= 2; off++ {
			near = near || len(at[n+off]) > 0
		}
		if !near {
			continue
		}
		shown = append(shown, SourceLine{N: n, Text: line, Problems: at[n], Gap: last > 0 && n > last+1})
		last = n
	}
	return shown
}

func editOptions(list []string, chosen string) []Choice {
	if !slices.Contains(list, chosen) {
		list = append(slices.Clone(list), chosen) // what the text has is not forgotten
	}
	var out []Choice
	for _, o := range list {
		text := o
		if o == "" {
			text = "–"
		}
		out = append(out, Choice{o, text, o == chosen})
	}
	return out
}
