package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"breakwater/internal/retrylog"
)

// Replay is what two configurations make of the same exchanges of the log.
type Replay struct {
	Was, Now string // revisions
	// Lines were asked about, and stand for so many Exchanges. Unasked are those that
	// nothing can be said of: they came to no try.
	Lines, Exchanges, Unasked int64
	Differ                    int64 // exchanges that are decided otherwise
	Retries                   Pair  // sent in all
	Good                      Pair  // exchanges whose client is told less than 500
	// Kinds are the differences, the most frequent first.
	Kinds []Kind
}

// Pair is a count under both configurations.
type Pair struct{ Was, Now int64 }

// Kind is one way in which decisions differ, with the newest exchanges of it.
type Kind struct {
	Route, What string
	Count       int64 // exchanges
	Examples    []Example
}

// Example is one exchange, and what is made of it by either.
type Example struct {
	RequestID string
	Was, Now  string // in words
}

const mostExamples = 3

// Asked is a replay under way: exchanges are added one by one.
type Asked struct {
	was, now *Engine
	out      Replay
	kinds    map[[2]string]*Kind
}

// Ask begins to compare two configurations.
func Ask(was, now *Engine) *Asked {
	return &Asked{was: was, now: now, out: Replay{Was: was.Revision(), Now: now.Revision()}, kinds: map[[2]string]*Kind{}}
}

// Add asks both about an exchange; the newest come first.
func (a *Asked) Add(ev *retrylog.Exchange) {
	n := max(ev.Count, 1)
	s, err := FromEvent(ev)
	if err != nil {
		a.out.Unasked += n
		return
	}
	a.out.Lines, a.out.Exchanges = a.out.Lines+1, a.out.Exchanges+n
	was, now := a.was.judged(s), a.now.judged(s)
	a.out.Retries.Was, a.out.Retries.Now = a.out.Retries.Was+n*was.retries, a.out.Retries.Now+n*now.retries
	if was.good {
		a.out.Good.Was += n
	}
	if now.good {
		a.out.Good.Now += n
	}
	what := was.differs(now)
	if what == "" {
		return
	}
	a.out.Differ += n
	key := [2]string{ev.Route, what}
	k := a.kinds[key]
	if k == nil {
		k = &Kind{Route: ev.Route, What: what}
		a.kinds[key] = k
	}
	k.Count += n
	if len(k.Examples) < mostExamples {
		k.Examples = append(k.Examples, Example{ev.RequestID, was.words(), now.words()})
	}
}

// Done is what came of it.
func (a *Asked) Done() Replay {
	for _, k := range a.kinds {
		a.out.Kinds = append(a.out.Kinds, *k)
	}
	slices.SortFunc(a.out.Kinds, func(x, y Kind) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), strings.Compare(x.Route, y.Route), strings.Compare(x.What, y.What))
	})
	return a.out
}

// judgement is what one configuration makes of a sample, as far as two are compared.
type judgement struct {
	missing      bool // there is no such route
	retries      int64
	atLeast      int64
	reason, skip string
	status       int
	origin       string
	degraded     string
	waits        string
	good         bool
}

func (e *Engine) judged(s Sample) judgement {
	an, err := e.Explain(s)
	if err != nil || an.Route == "unmatched" {
		return judgement{missing: true}
	}
	j := judgement{retries: int64(an.Retries), atLeast: int64(an.AtLeast), reason: an.Reason, skip: an.Skip, status: an.Status, origin: an.Origin,
		degraded: an.Degraded, good: an.Status < 500}
	var waits []string
	for _, t := range an.Tries[min(1, len(an.Tries)):] {
		waits = append(waits, milli(t.WaitMS))
	}
	j.waits = strings.Join(waits, ", ")
	return j
}

// differs names the difference that weighs most, "" where there is none.
func (j judgement) differs(now judgement) string {
	switch {
	case j.missing && now.missing:
		return ""
	case now.missing:
		return "the route is gone"
	case j.missing:
		return "the route is new"
	case j.retries != now.retries || j.atLeast != now.atLeast:
		text := fmt.Sprintf("%s instead of %s", retriesWord(now.retries), numberWord(j.retries))
		if now.retries < j.retries && now.skip != "" {
			text += ": " + now.skip
		} else if now.retries > j.retries && j.skip != "" && j.skip != "attempts_exhausted" {
			text += ", before: " + j.skip
		}
		return text
	case j.status != now.status || j.origin != now.origin || j.degraded != now.degraded:
		return fmt.Sprintf("the client is told %s instead of %s", now.told(), j.told())
	case j.skip != now.skip:
		return fmt.Sprintf("stops for %s instead of %s", cmp.Or(now.skip, "no reason"), cmp.Or(j.skip, "no reason"))
	case j.reason != now.reason:
		return fmt.Sprintf("retried for %s instead of %s", cmp.Or(now.reason, "no reason"), cmp.Or(j.reason, "no reason"))
	case j.waits != now.waits:
		return "other waits"
	}
	return ""
}

func (j judgement) told() string {
	if j.degraded != "" {
		return fmt.Sprintf("%d (%s)", j.status, j.degraded)
	}
	return fmt.Sprintf("%d of the %s", j.status, j.origin)
}

// words say it in one line.
func (j judgement) words() string {
	if j.missing {
		return "no such route"
	}
	text := retriesWord(j.retries)
	if j.waits != "" {
		text += " after " + j.waits
	}
	text += ", then " + j.told()
	if j.skip != "" {
		text += "; " + j.skip
	}
	return text
}

func retriesWord(n int64) string {
	if n == 0 {
		return "no retry"
	}
	return plural(int(n), "retry", "retries")
}

func numberWord(n int64) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}
