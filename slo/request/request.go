// Package request searches the log of single exchanges: those of which a row is
// kept, because there was something to see in them.
package request

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/retrylog"
)

// Query is what is looked for. Empty fields ask for nothing.
type Query struct {
	Service, Route string
	// StatusFrom and StatusTo are the statuses told to clients, both included; 0 and
	// 0: any.
	StatusFrom, StatusTo int
	Reason               string // decision_reason or skip_reason, exactly
	Outcome              string // one of Outcomes
	ID                   string // request id: then nothing else is asked, and all that is kept is looked through
	From, To             time.Time
	Before               Mark // only what stands behind it
	Limit                int  // rows, at most MaxRows; 0: 50
}

// Mark is a place in the log, which is ordered by it, the newest first.
type Mark struct {
	At          time.Time
	ID, Gateway string
}

// Row is one exchange of the log.
type Row struct {
	Mark
	Exchange retrylog.Exchange
}

// Page is what was found.
type Page struct {
	Rows []Row
	// Looked is how many rows were looked through for them, at most Reach. Next is
	// where to go on; zero: there is nothing more in the range. Full says that it is
	// because the page is full, and not because the search has come to its reach.
	Looked int64
	Next   Mark
	Full   bool
}

// Counted is what the range holds, kept or not.
type Counted struct {
	Exchanges int64
	Unkept    int64 // rows for which a batch had no room
	Known     bool  // false: the range is too long to be added up here
}

// Bounds of a search.
const (
	MaxRows = 200
	Rows    = 50
	Reach   = 5_000              // rows that one search looks through
	Kept    = 7 * 24 * time.Hour // how long rows are kept
	Addable = 6 * time.Hour      // ranges up to this are counted
	maxText = 1024               // a mark holds two names that are escaped
)

// Recovered is the outcome of exchanges that only a retry made good.
const Recovered = "recovered"

// Outcomes are those that can be asked for.
func Outcomes() []string {
	return []string{string(retrylog.OK), Recovered, string(retrylog.UpstreamFailure), string(retrylog.Timeout), string(retrylog.LocalRefusal), string(retrylog.ClientAbort), string(retrylog.Panicked)}
}

// ranges are the spans that have names.
func ranges() map[string]time.Duration {
	return map[string]time.Duration{"15m": 15 * time.Minute, "1h": time.Hour, "6h": 6 * time.Hour, "24h": 24 * time.Hour, "7d": Kept}
}

// Parse reads a query from the parameters of an address: service, route, status (503
// or 5xx), reason, outcome, id, r (15m, 1h, 6h, 24h, 7d) or from and to (RFC 3339),
// before, limit. Every parameter that is wrong is told of.
func Parse(v url.Values, now time.Time) (q Query, err error) {
	var wrong []string
	no := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	text := func(key string) string {
		t := strings.TrimSpace(v.Get(key))
		if len(t) > maxText {
			no("%s must have at most %d bytes, got %d", key, maxText, len(t))
			return ""
		}
		return t
	}
	q = Query{Service: text("service"), Route: text("route"), Reason: text("reason"), Outcome: text("outcome"), ID: text("id")}
	if q.StatusFrom, q.StatusTo, err = statuses(text("status")); err != nil {
		no("%v", err)
	}
	if q.Outcome != "" && !slices.Contains(Outcomes(), q.Outcome) {
		no("outcome must be one of %s, got %q", strings.Join(Outcomes(), ", "), q.Outcome)
	}
	q.From, q.To = span(v, now, no)
	if q.Before, err = ParseMark(text("before")); err != nil {
		no("%v", err)
	}
	if limit := text("limit"); limit != "" {
		if q.Limit, err = strconv.Atoi(limit); err != nil || q.Limit < 1 || q.Limit > MaxRows {
			no("limit must be 1 to %d, got %q", MaxRows, limit)
			q.Limit = 0
		}
	}
	q.Limit = cmp.Or(q.Limit, Rows)
	if len(wrong) > 0 {
		return q, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return q, nil
}

func span(v url.Values, now time.Time, no func(string, ...any)) (from, to time.Time) {
	to = now
	back, ok := ranges()[cmp.Or(v.Get("r"), "1h")]
	if !ok {
		no("r must be one of 15m, 1h, 6h, 24h, 7d, got %q", v.Get("r"))
		back = time.Hour
	}
	for _, end := range []struct {
		key string
		at  *time.Time
	}{{"to", &to}, {"from", &from}} {
		text := strings.TrimSpace(v.Get(end.key))
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			no("%s must be an instant such as 2026-11-24T14:00:00Z, got %q", end.key, text)
			continue
		}
		*end.at = at.UTC()
	}
	if from.IsZero() {
		from = to.Add(-back)
	}
	if !from.Before(to) {
		no("from must be before to")
	}
	return from, to
}

// statuses reads 503 or 5xx.
func statuses(text string) (from, to int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	if class, ok := strings.CutSuffix(strings.ToLower(text), "xx"); ok && len(class) == 1 && class >= "1" && class <= "5" {
		from = int(class[0]-'0') * 100
		return from, from + 99, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 599 || n > 0 && n < 100 {
		return 0, 0, fmt.Errorf("status must be like 503 or 5xx, got %q", text)
	}
	return n, n, nil
}

// String is a mark as an address carries it: microseconds, gateway and request id,
// set apart by commas, which escaped names do not have.
func (m Mark) String() string {
	if m.At.IsZero() {
		return ""
	}
	return strconv.FormatInt(m.At.UnixMicro(), 10) + "," + url.QueryEscape(m.Gateway) + "," + url.QueryEscape(m.ID)
}

// ParseMark reads what String wrote; "" is the zero mark.
func ParseMark(text string) (Mark, error) {
	if text == "" {
		return Mark{}, nil
	}
	wrong := fmt.Errorf("before must be a place in the log as the link to older rows has it, got %q", text)
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return Mark{}, wrong
	}
	micros, err := strconv.ParseInt(parts[0], 10, 64)
	gateway, err1 := url.QueryUnescape(parts[1])
	id, err2 := url.QueryUnescape(parts[2])
	if err != nil || err1 != nil || err2 != nil || micros <= 0 || micros > 1<<53 {
		return Mark{}, wrong
	}
	return Mark{At: time.UnixMicro(micros).UTC(), ID: id, Gateway: gateway}, nil
}
