package web

import (
	"errors"
	"slices"
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
	"breakwater/slo/freeze"
)

// PolicyPart is a policy that somebody tries out before it is in force.
type PolicyPart struct {
	Text     string
	InForce  []Link
	Asked    bool
	Mistakes []PolicyMistake
	Trouble  string
	Answer   string
	Rows     []TrialRow
	Note     string
	Save     *PolicySave // nil: there is nothing that could be saved
}

// PolicyMistake is what is wrong with the document, and where.
type PolicyMistake struct{ Where, Text, Hint string }

// TrialRow sets one objective under the policy in force beside it under the other.
type TrialRow struct {
	Name, Href, Service, Env                     string
	IsFreezes, ThenFreezes, IsFrozen, ThenFrozen string
	IsWorst, ThenWorst                           Chip
}

const (
	// mostPolicy bounds a document in an address.
	mostPolicy = 8 << 10
	// mostTrials bounds how many objectives are replayed for one look.
	mostTrials = 12
	// trialBack is how far back.
	trialBack = 30 * 24 * time.Hour
)

// tryPolicy shows the policy that is asked about, or one that is in force, and with
// ?policy= what it would have made of the last 30 days. It changes nothing: policies
// come from control's documents.
func (s *Server) tryPolicy(v view, o *gateView) {
	part, q := &o.Policy, v.r.URL.Query()
	inForce := s.cfg.Releases.Policies()
	for _, p := range inForce {
		part.InForce = append(part.InForce, Link{Name: p.Name, Href: "/gate?view=policy&edit=" + p.Name, Here: p.Name == q.Get("edit")})
	}
	shown := freeze.Default()
	if len(inForce) > 0 {
		shown = inForce[0]
	}
	for _, p := range inForce {
		if p.Name == q.Get("edit") {
			shown = p
		}
	}
	part.Text = shown.Document()
	text := strings.ReplaceAll(q.Get("policy"), "\r\n", "\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	part.Asked, part.Text = true, text
	if len(text) > mostPolicy {
		part.Trouble = v.say("The document must be at most 8 KiB.")
		return
	}
	var log conf.Log
	found := freeze.Parse([]conf.File{{Name: "policy", Data: []byte(text)}}, &log)
	for _, m := range log.Errors() {
		where := m.Path
		if m.Line > 0 {
			where = v.say("line %s, %s", slo.Count(int64(m.Line)), m.Path)
		}
		part.Mistakes = append(part.Mistakes, PolicyMistake{strings.TrimSuffix(where, ", "), m.Text, m.HintText})
	}
	switch {
	case len(part.Mistakes) > 0:
		return
	case len(found) != 1:
		part.Trouble = v.say("The document must be one FreezePolicy.")
		return
	}
	part.Save = s.saving(v, found[0])
	s.replayPolicy(v, part, inForce, found[0])
}

func (s *Server) replayPolicy(v view, part *PolicyPart, inForce []freeze.Policy, p freeze.Policy) {
	// As it would be: beside the others, in place of the one that has its name, and of
	// those that rule as closely, which could not stay.
	then := slices.DeleteFunc(slices.Clone(inForce), func(x freeze.Policy) bool { return x.Name == p.Name })
	others := slices.Clone(then)
	then = slices.Insert(then, 0, p)
	var rivals []string
	var trials []freeze.Trial
	silent, unable, left, closer := 0, 0, 0, 0
	for _, svc := range v.services {
		for _, st := range svc.Statuses {
			switch {
			case !p.Rules(svc.Name, st.Env) || !s.cfg.Covers(v.r, svc.Name):
				continue
			case freeze.For(then, svc.Name, st.Env).Revision() != p.Revision():
				closer++ // another policy names it more closely, and rules
				continue
			case st.Budget.NoData:
				silent++
				continue
			case len(trials) == mostTrials:
				left++
				continue
			}
			if r := freeze.For(append(slices.Clone(others), p), svc.Name, st.Env); r.Name != p.Name && !slices.Contains(rivals, r.Name) {
				rivals = append(rivals, r.Name)
			}
			from := v.now.Add(-trialBack)
			is, err := s.replayUnder(v, st, freeze.For(inForce, svc.Name, st.Env), from)
			var other slo.Backtest
			if err == nil {
				other, err = s.replayUnder(v, st, p, from)
			}
			switch {
			case errors.Is(err, slo.ErrTerms):
				unable++
				continue
			case err != nil:
				part.Trouble = s.read(v, "The history", err)
				return
			}
			trials = append(trials, freeze.Trial{Objective: st.Objective.ID, Service: svc.Name, Env: st.Env, Is: is, Then: other})
			part.Rows = append(part.Rows, v.trialRow(st, is, other))
		}
	}
	part.Note = v.trialNote(trials, silent, unable, left, closer)
	if len(rivals) > 0 {
		part.Note += v.say(" As closely rules now: %s; both cannot be in force.", strings.Join(rivals, ", "))
	}
	if len(trials) == 0 {
		part.Trouble = v.text(v.say("There is nothing to replay: no objective with data is ruled by this policy."), part.Note)
		part.Note = ""
		return
	}
	n, m, was, would := freeze.Sum(trials)
	times := func(n int, frozen time.Duration) string {
		if n == 0 {
			return v.say("no freeze")
		}
		return v.say("%s, %s", v.count(n, "freeze", "freezes"), v.lasting(frozen))
	}
	part.Answer = v.say("Last %s this policy = %s; the one in force = %s.", v.lasting(trialBack), times(m, would), times(n, was))
}

func (s *Server) replayUnder(v view, st *slo.Status, p freeze.Policy, from time.Time) (slo.Backtest, error) {
	key := "policy\x00" + st.Objective.ID + "\x00" + st.Env + "\x00" + p.Revision() + "\x00" + slo.TargetPercent(st.Objective.TargetPPB) + "\x00" + st.Objective.Window.String()
	b, _, err := s.replays.get(key, v.now, func() ([]slo.Backtest, error) {
		return s.cfg.Promises.Backtests(v.r.Context(), []slo.Objective{st.Objective}, p.Levels, st.Env, from, st.DataUntil)
	})
	if err != nil {
		return slo.Backtest{}, err
	}
	return b[0], nil
}

func (l lang) trialRow(st *slo.Status, is, then slo.Backtest) TrialRow {
	worst := func(b slo.Backtest) Chip {
		for _, level := range []slo.Level{slo.Frozen, slo.Emergency, slo.Warn, slo.Normal} {
			if b.Levels[level] > 0 {
				return levelChip(level, false)
			}
		}
		return levelChip(slo.Unknown, false)
	}
	frozen := func(b slo.Backtest) string {
		if b.Levels[slo.Frozen] == 0 {
			return "–"
		}
		return l.lasting(b.Levels[slo.Frozen])
	}
	return TrialRow{Name: st.Objective.ID, Href: sloHref(st), Service: st.Objective.Service, Env: st.Env, IsFreezes: slo.Count(int64(is.Freezes)), ThenFreezes: slo.Count(int64(then.Freezes)),
		IsFrozen: frozen(is), ThenFrozen: frozen(then), IsWorst: worst(is), ThenWorst: worst(then)}
}

// trialNote says what the answer leaves out.
func (l lang) trialNote(trials []freeze.Trial, silent, unable, left, closer int) string {
	var parts []string
	if len(trials) > 0 {
		t := trials[0].Then
		parts = append(parts, l.say("Replayed by budgets alone, each %s: freezes by hand, missing data and overrides are not in it.", l.lasting(t.Step)))
	}
	for _, x := range []struct {
		n    int
		text string
	}{
		{silent, l.count(silent, "objective has no data", "objectives have no data")},
		{unable, l.count(unable, "objective cannot be replayed", "objectives cannot be replayed")},
		{left, l.count(left, "more objective was not replayed", "more objectives were not replayed")},
		{closer, l.count(closer, "objective is ruled more closely by another policy", "objectives are ruled more closely by other policies")},
	} {
		if x.n > 0 {
			parts = append(parts, l.say("%s.", sentenceCase(x.text)))
		}
	}
	return l.text(parts...)
}
