package dialect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/slo/gate"
)

const (
	// labelsEvery is how long what labels prove is believed: one may be taken off.
	labelsEvery = time.Minute
	// maxCommits and maxEvents bound what is looked at for one release.
	maxCommits = 30
	maxEvents  = 300
)

// unproven is why labels prove nothing. Other errors are GitHub's.
type unproven struct{ why string }

func (u *unproven) Error() string { return u.why }

func unprovenBy(format string, args ...any) error { return &unproven{fmt.Sprintf(format, args...)} }

// readLabels fills p.Labelled with the kind that the labels of all pull requests in the
// release prove it to be, "" if they do not; the note says why. What could not be read
// proves nothing, and is read again.
func (g *GitHub) readLabels(ctx context.Context, p *Pending, now time.Time) (note string) {
	running := g.cfg.Running(p.Service, p.Env)
	if p.LabelsOver == running && now.Sub(p.LabelsAt) < labelsEvery && !p.LabelsAt.IsZero() {
		return p.LabelNote
	}
	kind, err := g.labelled(ctx, *p, running, now)
	p.Labelled, p.LabelNote, p.LabelsOver, p.LabelsAt = kind, "", running, now
	if u, ok := errors.AsType[*unproven](err); ok {
		p.LabelNote = u.why
	} else if err != nil {
		p.LabelNote = "they could not be read"
		g.cfg.Log.Warn("labels at GitHub could not be read", "repo", p.Repo, "sha", p.SHA, "err", err)
	}
	return p.LabelNote
}

// labelled is the kind of everything that goes out with p. A release is of a kind if
// each commit since what runs now came by a pull request that carries the label, set by
// an owner other than its author: else one labelled change would take any number of
// others along.
func (g *GitHub) labelled(ctx context.Context, p Pending, running string, now time.Time) (gate.Kind, error) {
	switch {
	case !hexSHA.MatchString(running):
		return "", unprovenBy("what runs now is not known, since no deploy was marked by its commit, so nobody can tell what else would go out")
	case running == p.SHA:
		return "", unprovenBy("this commit runs already")
	}
	var compared struct {
		Status  string
		Total   int `json:"total_commits"`
		Commits []struct {
			SHA string `json:"sha"`
		}
	}
	if err := g.get(ctx, now, p, "/compare/"+running+"..."+p.SHA+"?per_page="+strconv.Itoa(maxCommits), &compared); err != nil {
		return "", err
	}
	switch {
	case compared.Status != "ahead":
		return "", unprovenBy("the commit does not follow what runs now (%.20s)", compared.Status)
	case compared.Total > maxCommits || len(compared.Commits) != compared.Total || compared.Total == 0:
		return "", unprovenBy("%d commits would go out, and no more than %d are looked at", compared.Total, maxCommits)
	}
	var kind gate.Kind
	known := map[int]gate.Kind{} // by pull request
	for _, c := range compared.Commits {
		if !hexSHA.MatchString(c.SHA) {
			return "", errors.New("GitHub named a commit that is none")
		}
		one, err := g.kindOf(ctx, now, p, c.SHA, known)
		switch {
		case err != nil:
			return "", err
		case kind != "" && one != kind:
			return "", unprovenBy("a %s and a %s would go out together", kind, one)
		}
		kind = one
	}
	return kind, nil
}

type pull struct {
	Number   int
	State    string
	MergedAt *time.Time `json:"merged_at"`
	User     struct{ Login string }
	Labels   []struct{ Name string }
}

// kindOf is what the labels of the pull request of one commit prove.
func (g *GitHub) kindOf(ctx context.Context, now time.Time, p Pending, sha string, known map[int]gate.Kind) (gate.Kind, error) {
	var pulls []pull
	if err := g.get(ctx, now, p, "/commits/"+sha+"/pulls", &pulls); err != nil {
		return "", err
	}
	why := unprovenBy("commit %.7s came by no pull request", sha)
	for _, pr := range pulls {
		if pr.Number <= 0 || pr.State != "open" && pr.MergedAt == nil {
			continue // closed without effect
		}
		if kind, ok := known[pr.Number]; ok {
			return kind, nil
		}
		kind, err := g.kindOfPull(ctx, now, p, pr)
		if err == nil {
			known[pr.Number] = kind
			return kind, nil
		}
		if _, ok := errors.AsType[*unproven](err); !ok {
			return "", err
		}
		why = err
	}
	return "", why
}

func (g *GitHub) kindOfPull(ctx context.Context, now time.Time, p Pending, pr pull) (gate.Kind, error) {
	why := unprovenBy("#%d carries none of the labels that stand for a kind", pr.Number)
	for _, l := range pr.Labels {
		kind, ok := g.cfg.Labels[strings.ToLower(l.Name)]
		if !ok {
			continue
		}
		by, err := g.setBy(ctx, now, p, pr.Number, l.Name)
		if err != nil {
			return "", err
		}
		switch owns, err := g.owns(ctx, now, p, by); {
		case err != nil:
			return "", err
		case strings.EqualFold(by, pr.User.Login):
			why = unprovenBy("label %.50q of #%d was set by its own author", l.Name, pr.Number)
		case !owns:
			why = unprovenBy("label %.50q of #%d was set by %.40s, who is no code owner", l.Name, pr.Number, by)
		default:
			return kind, nil
		}
	}
	return "", why
}

// setBy is who set a label last.
func (g *GitHub) setBy(ctx context.Context, now time.Time, p Pending, number int, label string) (string, error) {
	by := ""
	const page = 100
	for n := 1; n <= maxEvents/page; n++ {
		var events []struct {
			Event string
			Label struct{ Name string }
			Actor struct{ Login string }
		}
		if err := g.get(ctx, now, p, fmt.Sprintf("/issues/%d/events?per_page=%d&page=%d", number, page, n), &events); err != nil {
			return "", err
		}
		for _, e := range events { // oldest first
			if strings.EqualFold(e.Label.Name, label) {
				switch e.Event {
				case "labeled":
					by = e.Actor.Login
				case "unlabeled":
					by = ""
				}
			}
		}
		if len(events) < page {
			if by == "" {
				return "", unprovenBy("nobody can tell who set label %.50q of #%d", label, number)
			}
			return by, nil
		}
	}
	return "", unprovenBy("#%d has more than %d events, so nobody can tell who set its labels", number, maxEvents)
}

// owns reports whether login may say of what kind a change is.
func (g *GitHub) owns(ctx context.Context, now time.Time, p Pending, login string) (bool, error) {
	if len(g.cfg.Owners) > 0 {
		return slices.ContainsFunc(g.cfg.Owners, func(o string) bool { return strings.EqualFold(o, login) }), nil
	}
	var may struct {
		Permission string
		Role       string `json:"role_name"`
	}
	err := g.get(ctx, now, p, "/collaborators/"+url.PathEscape(login)+"/permission", &may)
	if e, ok := errors.AsType[*apiError](err); ok && e.status == http.StatusNotFound {
		return false, nil // somebody who has left, or an App
	}
	return may.Permission == "admin" || may.Role == "maintain" || may.Role == "admin", err
}

func (g *GitHub) get(ctx context.Context, now time.Time, p Pending, path string, into any) error {
	_, err := g.cfg.App.asInstallation(ctx, now, p, http.MethodGet, "/repos/"+p.Repo+path, nil, into)
	return err
}
