package explain

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Text writes a for people.
func (a Answer) Text(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	line := func(head, format string, args ...any) { fmt.Fprintf(t, head+"\t"+format+"\n", args...) }
	line("route", "%s", a.Route)
	if a.Upstream != "" {
		line("upstream", "%s, %s", a.Upstream, count(a.Endpoints, "endpoint"))
	}
	for _, s := range a.Split {
		line("  branch", "%s, %s of requests", s.Upstream, percent(s.PPM))
	}
	if m := a.Mirror; m != nil && m.Skip != "" {
		line("mirror", "none to %s: %s", m.Upstream, m.Skip)
	} else if m != nil {
		line("mirror", "%s of requests to %s", percent(m.PPM), m.Upstream)
	}
	if p := a.Policy; p != nil {
		line("policy", "%s", p.text())
	}
	for n := range a.Tries {
		a.Tries[n].text(line, n == len(a.Tries)-1)
	}
	place := ""
	if a.Degraded != "" {
		place = " (" + a.Degraded + ")"
	}
	line("answer", "%d from the %s%s, after %s", a.Status, a.Origin, place, milli(a.TakesMS))
	if a.AtLeast != a.Retries {
		line("", "%d to %s: the deadline falls within the jitter", min(a.AtLeast, a.Retries), plural(max(a.AtLeast, a.Retries), "retry", "retries"))
	}
	if c := a.WorstCase; c != nil {
		line("worst case", "%s, %d ms for all tries and waits, an answer after %d ms", count(c.Calls, "call"), c.MS, c.AnswerMS)
	}
	for _, n := range a.Notes {
		line("note", "%s", n)
	}
	line("revision", "%s", a.Revision)
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Policy) text() string {
	if !p.Enabled || p.MaxRetries == 0 {
		return fmt.Sprintf("no retries; %d ms in all", p.TimeoutMS)
	}
	return fmt.Sprintf("%s of %d ms each, %d ms in all; backoff %d ms, jitter %s; at the end %s",
		plural(p.MaxRetries, "retry", "retries"), p.PerTryMS, p.TimeoutMS, p.BackoffMS, p.Jitter, p.Fallback)
}

func (t *Try) text(line func(head, format string, args ...any), last bool) {
	ends := strconv.Itoa(t.Status)
	if t.Failure != "" {
		ends = t.Failure
	}
	wait := ""
	if t.RetryNumber > 0 {
		wait = fmt.Sprintf(", after a wait of %s", milli(t.WaitMS))
	}
	line(fmt.Sprintf("try %d", t.RetryNumber+1), "at %s%s: %s in %d ms", milli(t.BeginsMS), wait, ends, t.LatencyMS)
	if c := t.Agreed; c != nil && c.Reaction != "" {
		line("  contract", "%s: %s; agreed %s", c.Contract, c.Meaning, c.Reaction)
	} else if c != nil {
		line("  contract", "%s says nothing of it", c.Contract)
	}
	for _, s := range t.Steps {
		line(stepHead(s), "%s", stepText(s))
	}
	switch {
	case t.Skip != "":
		line("  decided", "no further try: %s%s", t.Skip, because(t.Reason))
	case !last:
		line("  decided", "try again%s", because(t.Reason))
	default:
		line("  decided", "it is no failure: done")
	}
	if t.Skip != "" || !last {
		line("  why", "%s", Why(t.Reason, t.Skip))
	}
	if r := t.Recorded; r != nil {
		did := "try again"
		if r.Skip != "" {
			did = "no further try: " + r.Skip
		}
		differs := ""
		if r.Differs {
			differs = "; this configuration decides otherwise"
		}
		line("  recorded", "%s%s at %s%s", did, because(r.Reason), r.Endpoint, differs)
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func stepHead(s Step) string {
	if s.Rule >= 0 {
		return fmt.Sprintf("  rule %d", s.Rule+1)
	}
	return "  " + s.Role
}

func stepText(s Step) string {
	if s.Role == "gate" {
		if s.OK {
			return s.Name + ": open"
		}
		return s.Name + ": shut, " + s.Detail
	}
	role := ""
	if s.Role != "builtin" {
		role = s.Role + " "
	}
	switch {
	case s.OK && s.Detail != "":
		return fmt.Sprintf("%s%s: matches, %s", role, s.Name, s.Detail)
	case s.OK:
		return fmt.Sprintf("%s%s: matches", role, s.Name)
	case s.Saw != "" && strings.HasPrefix(s.Detail, "header "):
		return fmt.Sprintf("%s%s: no, %s is wanted and there is %s", role, s.Name, strings.TrimPrefix(s.Detail, "header "), s.Saw)
	case s.Saw != "":
		return fmt.Sprintf("%s%s: no, there is %s", role, s.Name, s.Saw)
	case s.Detail != "":
		return fmt.Sprintf("%s%s: no, %s", role, s.Name, s.Detail)
	}
	return fmt.Sprintf("%s%s: no", role, s.Name)
}

func milli(v [2]int64) string {
	if v[0] == v[1] {
		return fmt.Sprintf("%d ms", v[0])
	}
	return fmt.Sprintf("%d to %d ms", v[0], v[1])
}

func percent(ppm int64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0"), ".") + "%"
}

func count(n int, what string) string { return plural(n, what, what+"s") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
