package web

import (
	"strings"
	"time"

	"breakwater/slo"
)

// DeployPart is what is under way, and what caps it.
type DeployPart struct {
	Sub, Trouble string
	Caps         []CapRow
	Rows         []DeployRow
	Take         Take
}

// CapRow is a cap on the deploys of one service.
type CapRow struct {
	Service, Href, Env, What, Policy, From, Taken string
	Mark                                          Chip
}

// DeployRow is one deploy.
type DeployRow struct {
	Service, Href, Env, Ref, By string
	Begun, Until                Time
	UntilIn                     string
	State                       Chip
}

// lookBackDeploys is how far back deploys that ended are shown.
const lookBackDeploys = 24 * time.Hour

// deploying shows who holds the slots: what a pipeline that waits wants to know.
func (s *Server) deploying(v view, part *DeployPart) sheet {
	out := sheet{name: "deploys", columns: []string{"id", "service", "env", "ref", "kind", "by", "decision_id", "begun_at", "until", "ended_at", "outcome"}}
	list, caps, err := s.cfg.Releases.Deploying(v.r.Context(), v.now.Add(-lookBackDeploys))
	if part.Trouble = s.read(v, "Deploys", err); err != nil {
		return out
	}
	for _, c := range caps {
		row := CapRow{Service: c.Service, Href: serviceHref(c.Service), Env: c.Env, What: sentenceCase(v.tell(c.Text)), Policy: c.Policy, From: string(c.From), Taken: v.say("%s of %s", slo.Count(c.Taken), slo.Count(c.AtMost)), Mark: Chip{"fg-normal", "s-normal", "slots free"}}
		switch {
		case c.DryRun:
			row.Mark = Chip{"fg-unknown", "s-unknown", "dry run"}
		case c.Taken >= c.AtMost:
			row.Mark = Chip{"fg-warn", "s-warn", "none free"}
		}
		part.Caps = append(part.Caps, row)
	}
	live := 0
	for _, d := range list {
		out.rows = append(out.rows, []field{txt(d.ID), txt(d.Service), txt(d.Env), txt(d.Ref), txt(d.Kind), txt(d.By), txt(d.Decision), instant(d.Begun), instant(d.Until), maybe(d.Ended), txt(string(d.Outcome))})
		row := DeployRow{Service: d.Service, Href: serviceHref(d.Service), Env: d.Env, Ref: d.Ref, By: d.By, Begun: v.short(d.Begun), Until: v.short(d.Until)}
		if d.Env == "" {
			row.Env = "everywhere"
		}
		switch {
		case d.Live(v.now):
			live++
			row.State, row.UntilIn = Chip{"fg-warn", "s-warn", "under way"}, v.say("at the latest, %s", v.in(d.Until))
		case d.Ended == nil || d.Outcome == slo.DeployLapsed:
			row.State, row.UntilIn = Chip{"fg-unknown", "s-nodata", "lapsed"}, v.say("nobody told of its end")
		default:
			row.State, row.Until = Chip{"fg-normal", "s-normal", strings.ReplaceAll(string(d.Outcome), "_", " ")}, v.short(*d.Ended)
		}
		if len(part.Rows) < 30 {
			part.Rows = append(part.Rows, row)
		}
	}
	part.Sub = v.clauses(v.count(live, "under way", "under way"), v.count(len(caps), "cap holds", "caps hold"))
	part.Take = take(v.r, "deploys")
	return out
}
