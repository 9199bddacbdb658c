package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"breakwater/injector"
	"breakwater/injector/gameday"
	"breakwater/injector/readiness"
	"breakwater/injector/scenario"
	"breakwater/internal/auth"
	"breakwater/slo"
)

type gamedayView struct {
	ID, Title, Sub, Said   string
	Chip                   Chip
	Verdict                *Notice
	Facts                  []Fact
	Stop, StopWord         string // where the form posts; "" when nothing is left to stop
	Waves                  []WaveRow
	Begun                  bool
	Roles                  []Fact
	Approvals              []ApprovalRow
	Approve, Hash, Short   string // where the form posts; what is agreed to
	ApproveNote            string
	Starts, Guard          []string // what has to be so for it to begin, what ends it
	Checklist              []CheckCard
	Timeline               []LogLine
	Debrief                []NoteLine
	Notes                  string // where the form posts
	Findings               []FindingRow
	ReportHTML, ReportMD   string
	Document               string
	TakeRuns, TakeTimeline Take
	TakeChecklist          Take
	Refused                Refused
}

// WaveRow is one scenario of the run-of-show.
type WaveRow struct {
	Wave, Scenario, Href, Service string
	First                         bool // of its wave
	Chip                          Chip
	Time                          Time
	Shown, Failures               string
}

// ApprovalRow is one person's agreement.
type ApprovalRow struct {
	Who  string
	Time Time
	Mark Chip
}

// NoteLine is what somebody wrote when it was over.
type NoteLine struct {
	Text, Who string
	Time      Time
}

// CheckCard is how ready one service is.
type CheckCard struct {
	Service, Href, Of string
	Open              bool
	Items             []CheckItem
}

func (s *Server) gameday(w http.ResponseWriter, r *http.Request, refused Refused) {
	v := s.look(r)
	id := chi.URLParam(r, "id")
	story, err := s.cfg.Days.Story(r.Context(), id)
	if errors.Is(err, injector.ErrNotFound) {
		s.trouble(w, v, http.StatusNotFound, v.say("No game day %s", id), "No game day of this name or id is held, comes or was held.")
		return
	}
	if text := s.read(v, "The game day", err); err != nil {
		s.trouble(w, v, http.StatusServiceUnavailable, v.say("Game day %s", id), v.text(text, v.say("Faults are leased: without control they end by themselves within 15 s.")))
		return
	}
	h := story.Held
	zone := s.cfg.Zone.String()
	if story.Day.Schedule != nil {
		zone = cmp.Or(story.Day.Schedule.Zone, "UTC")
	}
	v = v.inZone(zone).inZone(r.URL.Query().Get("zone"))
	if s.exported(w, v, daySheets(story)...) {
		return
	}
	o := gamedayView{ID: h.ID, Title: cmp.Or(h.Title, h.Name), Chip: dayChip(h, v.now), Hash: h.Hash, Short: h.Hash[:min(len(h.Hash), 12)], Document: h.Text,
		TakeRuns: take(r, "runs"), TakeTimeline: take(r, "timeline"), TakeChecklist: take(r, "checklist"), Refused: refused}
	o.Said = map[string]string{"approved": v.say("Your approval counts for the content below."), "noted": v.say("It is written down."), "stopped": v.say("It was told to stop: what runs is aborted, what has not begun is skipped."),
		"started": v.say("It is held now.")}[r.URL.Query().Get("said")]
	o.Sub = v.say("%s, %s. Started by %s. Times in %s.", h.Name, h.ID, h.Actor, v.zone.String())
	api := "/api/v1/gamedays/" + url.PathEscape(h.ID) + "/report?format="
	o.ReportHTML, o.ReportMD = api+"html", api+"md"
	v.dayState(story, &o)
	v.dayPeople(s, story, &o)
	o.Waves, o.Begun = v.waves(story), len(story.Runs) > 0
	o.Starts, o.Guard = v.startWords(story.Day), v.stopWords(story.Day)
	for _, c := range story.Checklist {
		o.Checklist = append(o.Checklist, v.checkCard(c, len(story.Checklist) == 1))
	}
	for _, n := range slices.Backward(story.Timeline) {
		o.Timeline = append(o.Timeline, v.noteLine(n))
	}
	for _, n := range story.Debrief() {
		o.Debrief = append(o.Debrief, NoteLine{n.Text, n.Actor, v.day(n.At)})
	}
	for _, f := range story.Findings {
		if s.cfg.Covers(r, f.Service) {
			o.Findings = append(o.Findings, v.findingRow(f))
		}
	}
	s.show(w, v, refused.code(), "gameday", Page{Title: o.Title, Topics: refused.topics(topicDrills), Crumbs: []Link{{Name: "Game days", Href: "/gamedays"}, {Name: o.Title}}}, o)
}

// dayState fills what stands at the top: how far it is, and what it showed.
func (v view) dayState(story gameday.Story, o *gamedayView) {
	h := story.Held
	word, why := story.Verdict()
	if h.Stopped != "" {
		o.Verdict = &Notice{Class: "warn", Icon: "s-warn", Lead: v.say("Ended early."), Text: v.tell(h.Stopped)}
		if h.StartedAt.IsZero() {
			o.Verdict.Lead = v.say("Will not be held.")
		}
	} else if len(story.Runs) > 0 && !h.EndedAt.IsZero() {
		chip, _ := storyChip(story)
		o.Verdict = &Notice{Class: chip.Class, Icon: chip.Icon, Lead: sentence(v.word(word)), Text: v.tell(why)}
	}
	planned := Fact{Name: "Planned", Value: v.day(h.PlannedAt).Text, Text: h.PlannedAt.UTC().Format("15:04Z") + ", " + v.in(h.PlannedAt) + "."}
	if !h.StartedAt.IsZero() {
		planned.Text += v.say(" Begun %s.", v.clock(h.StartedAt).Text)
	}
	if !h.EndedAt.IsZero() {
		planned.Text += v.say(" Over %s.", v.clock(h.EndedAt).Text)
	}
	agreed := Fact{Name: "Approvals", Value: v.say("none needed"), Text: v.say("It is within its grant, or not where users are real.")}
	if h.Needs > 0 {
		agreed.Value, agreed.Text = v.say("%s of %s", slo.Count(int64(h.Agreed(v.now))), slo.Count(int64(h.Needs))), v.say("Each for the content %s; it starts by itself once all are there.", o.Short)
		if h.Agreed(v.now) < h.Needs && h.EndedAt.IsZero() {
			agreed.Class = "fg-warn"
		}
	}
	done := 0
	for _, r := range story.Runs {
		if r.State.Ended() {
			done++
		}
	}
	runs := Fact{Name: "Runs", Value: v.say("%s of %s", slo.Count(int64(done)), slo.Count(int64(max(len(story.Runs), len(story.Day.Scenarios))))), Text: v.say("%s, one after another.", v.count(len(story.Day.Waves), "wave", "waves"))}
	ready := Fact{Name: "Readiness", Value: v.say("no data"), Class: "mute", Text: v.say("Nothing has answered the questions.")}
	least := -1
	for _, c := range story.Checklist {
		if n := readiness.Ready(c.Answers); least < 0 || n < least {
			least = n
			ready = Fact{Name: "Readiness", Value: v.say("%s of %s", slo.Count(int64(n)), slo.Count(int64(len(c.Answers)))), Text: v.say("%s, the least ready of %s.", c.Service, v.count(len(story.Checklist), "service", "services")),
				Link: &Link{Name: "Checklist", Href: "#checklist"}}
		}
	}
	o.Facts = []Fact{planned, agreed, runs, ready}
	if h.EndedAt.IsZero() && h.Stopped == "" {
		o.Stop, o.StopWord = dayHref(h.ID)+"/abort", v.say("Stop game day")
		if h.StartedAt.IsZero() {
			o.StopWord = v.say("Call it off")
		}
	}
}

// dayPeople fills who does what, who agreed, and what the reader may do.
func (v view) dayPeople(s *Server, story gameday.Story, o *gamedayView) {
	h, roles := story.Held, story.Day.Roles
	name := func(n string) string { return cmp.Or(n, v.say("nobody named")) }
	o.Roles = []Fact{{Name: "Commander", Text: name(roles.Commander)}, {Name: "Scribe", Text: name(roles.Scribe)}, {Name: "Observers", Text: name(strings.Join(roles.Observers, ", "))}}
	for _, a := range h.Approvals {
		row := ApprovalRow{Who: a.Actor, Time: v.day(a.At), Mark: Chip{"fg-normal", "s-normal", "counts"}}
		switch {
		case a.Hash != h.Hash:
			row.Mark = Chip{"fg-warn", "s-warn", v.say("of another content, %s", a.Hash[:min(len(a.Hash), 12)])}
		case v.now.Sub(a.At) >= injector.ApprovalFor:
			row.Mark = Chip{"fg-warn", "s-warn", "too old"}
		}
		o.Approvals = append(o.Approvals, row)
	}
	me := auth.From(v.r.Context())
	if me.May(auth.Operator, auth.Approver) || s.cfg.MayLift(v.r) || s.cfg.MayGrant(v.r) {
		o.Notes = dayHref(h.ID) + "/notes"
	}
	already := slices.ContainsFunc(h.Approvals, func(a injector.Approved) bool {
		return a.Actor == me.Name && a.Hash == h.Hash && v.now.Sub(a.At) < injector.ApprovalFor
	})
	switch {
	case !h.EndedAt.IsZero() || h.Stopped != "" || h.Needs == 0 || h.Agreed(v.now) >= h.Needs:
	case !s.cfg.MayGrant(v.r):
		o.ApproveNote = v.say("An approver can agree to it.")
	case me.Name != "" && (me.Name == h.Actor || me.Name == roles.Commander):
		o.ApproveNote = v.say("You start or command it: somebody else has to agree.")
	case already:
		o.ApproveNote = v.say("You have agreed; others have to.")
	default:
		o.Approve = dayHref(h.ID) + "/approve"
	}
}

// waves are the run-of-show: what runs together and in which order, with its run
// where there is one already.
func (v view) waves(story gameday.Story) (out []WaveRow) {
	wave := func(n int) string {
		if n < len(story.Day.Waves) {
			return story.Day.Waves[n].Name
		}
		return v.say("looked at again")
	}
	for i, r := range story.Runs {
		row := WaveRow{Wave: wave(r.Wave), Scenario: cmp.Or(r.Title, r.Scenario), Href: runHref(r.ID), Service: r.Service, Chip: runChip(r), First: i == 0 || story.Runs[i-1].Wave != r.Wave, Failures: "–"}
		full := v.runRow(r)
		row.Shown, row.Failures = full.Shown, full.Failures
		if !r.StartedAt.IsZero() {
			row.Time = v.short(r.StartedAt)
		}
		out = append(out, row)
	}
	if len(story.Runs) > 0 {
		return out
	}
	for _, w := range story.Day.Waves {
		for i, id := range w.Scenarios {
			out = append(out, WaveRow{Wave: w.Name, Scenario: id, First: i == 0, Chip: Chip{"unknown", "s-unknown", "not yet"}, Failures: "–"})
		}
	}
	return out
}

// noteLine is one line of the timeline.
func (v view) noteLine(n gameday.Note) LogLine {
	l := LogLine{Time: v.clock(n.At), Text: n.Text, Actor: n.Actor, Class: "fg-unknown", Icon: "e-log"}
	if !sameDay(n.At.In(v.zone), v.now.In(v.zone)) {
		l.Time = Time{v.iso(n.At), v.written(n.At.In(v.zone), "2 Jan 15:04:05")}
	}
	switch n.Kind {
	case "note", "debrief":
		l.Class, l.Icon = "", "book"
	case "approval":
		l.Text, l.Class, l.Icon = v.tell(n.Text), "fg-normal", "s-normal"
	case "reminder":
		l.Text, l.Icon = v.tell(n.Text), "bell"
	case "stop":
		l.Text, l.Class, l.Icon = v.tell(n.Text), "fg-emergency", "s-emergency"
	default:
		return v.runLine(n, l)
	}
	return l
}

func (v view) runLine(n gameday.Note, l LogLine) LogLine {
	l.Text = v.tell(n.Text)
	like := v.logLine(injector.Event{At: n.At, Kind: n.Kind, Text: n.Text, Actor: n.Actor})
	l.Class, l.Icon = like.Class, like.Icon
	return l
}

// stopWords says in words what ends all of a game day: its brakes as those of a run.
func (l lang) stopWords(g scenario.GameDay) (out []string) {
	for _, x := range g.Stop {
		out = append(out, l.brakeWords(x))
	}
	if g.Deadline > 0 {
		out = append(out, l.say("it goes on for longer than %s", l.lasting(g.Deadline)))
	}
	return append(out, l.say("one of its runs is stopped, or a blackout begins"))
}

// daySheets are the tables of the page.
func daySheets(story gameday.Story) []sheet {
	runs := sheet{name: "runs", columns: []string{"wave", "id", "scenario", "service", "state", "verdict", "reason", "started_at", "ended_at", "failed_requests", "requests"}}
	for _, r := range story.Runs {
		runs.rows = append(runs.rows, []field{num(int64(r.Wave) + 1), txt(r.ID), txt(r.Scenario), txt(r.Service), txt(string(r.State)), txt(string(r.Verdict)), txt(r.Reason), instant(r.StartedAt), instant(r.EndedAt), num(r.Bad), num(r.Good + r.Bad)})
	}
	lines := sheet{name: "timeline", columns: []string{"at", "kind", "actor", "run", "text"}}
	for _, n := range story.Timeline {
		lines.rows = append(lines.rows, []field{instant(n.At), txt(n.Kind), txt(n.Actor), txt(n.Run), txt(n.Text)})
	}
	check := sheet{name: "checklist", columns: []string{"service", "item", "state", "text", "evidence", "by", "at"}}
	for _, c := range story.Checklist {
		for _, a := range c.Answers {
			check.rows = append(check.rows, []field{txt(c.Service), txt(a.ID), txt(string(a.State)), txt(a.Text), txt(a.Evidence), txt(a.By), instant(a.At)})
		}
	}
	return []sheet{runs, lines, check}
}
