package dialect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// Outcomes of what waited.
const (
	approved = "approved"
	rejected = "rejected"
	expired  = "expired" // GitHub has given it up by now
	gaveUp   = "gave_up" // GitHub knows no such run any more
)

const (
	// askEvery is how often what waits is asked about again.
	askEvery = 5 * time.Second
	// maxReports is how many status reports GitHub takes for a deployment, and
	// maxComment how long one may be.
	maxReports = 10
	maxComment = 1024
	// reportEvery keeps a state that flaps from using the reports up.
	reportEvery = 30 * time.Second
	// goneAfter is how often in a row GitHub may say that there is no such run.
	goneAfter = 5
	// atOnce is how many are looked after at the same time.
	atOnce = 8
)

// Run looks after what waits until ctx ends.
func (g *GitHub) Run(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	var recovered time.Time
	away := false
	for {
		now := g.cfg.Now().UTC()
		err := g.Tick(ctx, now)
		if err == nil && now.Sub(recovered) >= recoverEvery {
			recovered = now
			if err := g.Recover(ctx, now); err != nil && ctx.Err() == nil {
				g.cfg.Log.Warn("GitHub is not asked for what it could not deliver", "err", err)
			}
		}
		if err != nil && !away && ctx.Err() == nil {
			g.cfg.Log.Error("runs of GitHub wait", "err", err)
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Tick takes what is due one step further.
func (g *GitHub) Tick(ctx context.Context, now time.Time) error {
	due, err := g.cfg.Shelf.ClaimPending(ctx, now, 2*atOnce)
	if err != nil {
		return fmt.Errorf("what waits at GitHub: %w", err)
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, atOnce)
	errs := make([]error, len(due))
	for i, p := range due {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			errs[i] = g.step(ctx, p, now)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// step takes one further, and puts it back or closes it.
func (g *GitHub) step(ctx context.Context, p Pending, now time.Time) error {
	if now.Sub(p.At) > patience {
		return g.cfg.Shelf.ClosePending(ctx, p, expired, now)
	}
	outcome, err := g.decide(ctx, &p, now)
	if err == nil {
		p.Attempts, p.Gone = 0, 0
		if outcome != "" {
			return g.cfg.Shelf.ClosePending(ctx, p, outcome, now)
		}
		return g.cfg.Shelf.DeferPending(ctx, p, now.Add(askEvery))
	}
	g.cfg.Log.Warn("a run waits at GitHub, and it could not be told", "repo", p.Repo, "run", p.Run, "attempts", p.Attempts, "err", err)
	p.Attempts++
	wait := min(askEvery<<min(p.Attempts-1, 10), 5*time.Minute)
	if e, ok := errors.AsType[*apiError](err); ok {
		wait = max(wait, e.after)
		// Cancelled, finished, or decided by another rule: there is nothing to tell.
		if e.status == http.StatusNotFound || e.status == http.StatusGone || e.status == http.StatusUnprocessableEntity {
			if p.Gone++; p.Gone >= goneAfter {
				return g.cfg.Shelf.ClosePending(ctx, p, gaveUp, now)
			}
		}
	}
	return g.cfg.Shelf.DeferPending(ctx, p, now.Add(wait))
}

// decide asks the gate, and tells GitHub what is new; an outcome ends the waiting.
func (g *GitHub) decide(ctx context.Context, p *Pending, now time.Time) (outcome string, err error) {
	q, err := g.question(*p)
	if err != nil {
		return "", err
	}
	d := g.cfg.Gate.Look(q)
	note := ""
	if d.Decision != gate.Allow && q.Kind != gate.Rollback && len(g.cfg.Labels) > 0 {
		// Labels are read only where they could matter. What they prove is for the policy
		// to accept or not.
		if note = g.readLabels(ctx, p, now); p.Labelled != "" {
			q.Kind, q.Seen = p.Labelled, freeze.Label
			d = g.cfg.Gate.Look(q)
		}
	}
	word := string(d.Decision) + " " + d.ReasonCode
	final := d.Decision == gate.Allow || d.Decision == gate.Deny && g.cfg.Reject && p.Kind == "deployment"
	if !final && (word == p.Told || now.Sub(p.ToldAt) < reportEvery) {
		return "", nil
	}
	// Only what is told is a decision that is kept, and uses an override.
	d = g.cfg.Gate.Answer(auth.With(ctx, auth.Principal{Name: "github", Role: auth.Pipeline}), q)
	word = string(d.Decision) + " " + d.ReasonCode
	if note != "" && d.Decision != gate.Allow {
		d.Reasons = append(d.Reasons, "Labels: "+note+".")
	}
	if p.Kind == "check" {
		return g.check(ctx, p, d, word, now)
	}
	return g.review(ctx, p, d, word, now)
}

// review answers a deployment protection rule: with a state it is decided, without
// one it is a report and the run goes on to wait.
func (g *GitHub) review(ctx context.Context, p *Pending, d gate.Decision, word string, now time.Time) (outcome string, err error) {
	body := map[string]string{"environment_name": p.Environment, "comment": comment(d)}
	switch {
	case d.Decision == gate.Allow:
		outcome = approved
	case d.Decision == gate.Deny && g.cfg.Reject:
		outcome = rejected
	case p.Reports >= maxReports:
		p.Told, p.ToldAt = word, now
		return "", nil
	}
	if outcome != "" {
		body["state"] = outcome
		if err := g.audit(ctx, *p, outcome, d, now); err != nil {
			return "", err
		}
	} else {
		// Counted before it is known to have arrived: one more would be refused.
		p.Reports++
	}
	path := "/repos/" + p.Repo + "/actions/runs/" + strconv.FormatInt(p.Run, 10) + "/deployment_protection_rule"
	status, err := g.cfg.App.asInstallation(ctx, now, *p, http.MethodPost, path, body, nil)
	switch {
	case err != nil:
		return "", err
	case status != http.StatusNoContent:
		return "", &apiError{status: status, detail: "204 was expected"}
	}
	p.Told, p.ToldAt = word, now
	return outcome, nil
}

func (g *GitHub) audit(ctx context.Context, p Pending, outcome string, d gate.Decision, now time.Time) error {
	return g.cfg.Shelf.Audit(ctx, auth.Entry{At: now, Actor: "gate", Action: "github." + outcome, Object: p.Service + "/" + p.Env,
		Detail: fmt.Sprintf("%s run %d, environment %s, %s: decision %s, %s", p.Repo, p.Run, p.Environment, p.SHA, d.DecisionID, d.ReasonCode)})
}

// checkName is how the check run is called, by which a branch rule can require it.
const checkName = "breakwater release gate"

// check writes a check run, or changes the one it wrote. Where a check is required
// GitHub lets neutral and skipped pass, so what is held or unknown is neither.
func (g *GitHub) check(ctx context.Context, p *Pending, d gate.Decision, word string, now time.Time) (outcome string, err error) {
	conclusion := map[gate.Verdict]string{gate.Allow: "success", gate.Deny: "failure"}[d.Decision]
	if conclusion == "" {
		conclusion = "action_required"
	}
	if err := g.audit(ctx, *p, "check_"+conclusion, d, now); err != nil {
		return "", err
	}
	body := map[string]any{"name": checkName, "status": "completed", "conclusion": conclusion, "completed_at": now.Format(time.RFC3339), "external_id": d.DecisionID,
		"output": map[string]string{"title": fmt.Sprintf("%s: %s is %s in %s", d.Decision, p.Service, d.State, p.Env), "summary": comment(d)}}
	method, path := http.MethodPost, "/repos/"+p.Repo+"/check-runs"
	if p.CheckID != 0 {
		method, path = http.MethodPatch, path+"/"+strconv.FormatInt(p.CheckID, 10)
	} else {
		body["head_sha"] = p.SHA
	}
	var made struct{ ID int64 }
	if _, err := g.cfg.App.asInstallation(ctx, now, *p, method, path, body, &made); err != nil {
		return "", err
	}
	p.CheckID, p.Told, p.ToldAt = made.ID, word, now
	if d.Decision == gate.Allow {
		return approved, nil
	}
	return "", nil
}

// comment is a decision in Markdown, as long as GitHub takes it. What people wrote
// in a reason must not call other people.
func comment(d gate.Decision) string {
	id := "This decision was not written down."
	if d.DecisionID != "" {
		id = "Decision `" + d.DecisionID + "`."
	}
	head := fmt.Sprintf("**breakwater: %s** (`%s`, %s is %s)\n\n", d.Decision, d.ReasonCode, d.Service, d.State)
	text := strings.ReplaceAll(strings.Join(d.Reasons, "\n"), "@", "@\u200b")
	text = clip(text, maxComment-len(head)-len(id)-2)
	return head + text + "\n\n" + id
}
