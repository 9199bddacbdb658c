package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/exchange"
)

// Sample is one exchange to be explained: a request, and how the upstream is
// supposed to answer each try of it.
type Sample struct {
	// Route names the route instead of looking for it: for a captured event, whose
	// path nobody has kept.
	Route   string  `json:"route,omitempty"`
	Method  string  `json:"method,omitempty"` // "" is GET
	Host    string  `json:"host,omitempty"`
	Path    string  `json:"path,omitempty"`
	Headers Headers `json:"headers,omitempty"`
	// Peer is the address the request comes from. Of one that the gateway does not
	// trust Retry-Count and deadline are not believed; "" is trusted.
	Peer      string `json:"peer,omitempty"`
	RequestID string `json:"request_id,omitempty"` // a split goes by it
	// BodyBytes is the length of the request's body; -1 is unknown.
	BodyBytes int64 `json:"body_bytes,omitempty"`
	// DeadlineMS is how long whoever asks will wait; 0: as long as the route does.
	DeadlineMS int64 `json:"deadline_ms,omitempty"`

	// Status, ResponseHeaders and ResponseBody are the answer to every try, or
	// Failure how every try ends without one: dial, connect_timeout, try_timeout ...
	Status          int     `json:"status,omitempty"`
	ResponseHeaders Headers `json:"response_headers,omitempty"`
	ResponseBody    string  `json:"response_body,omitempty"`
	Failure         string  `json:"failure,omitempty"`
	LatencyMS       int64   `json:"latency_ms,omitempty"`
	// Answers are those to the first tries, one by one, in place of the fields
	// above; tries beyond them end like the last.
	Answers []Reply `json:"answers,omitempty"`

	// Tried are endpoints that have been asked already and are not asked again
	// while there are others.
	Tried []string `json:"tried,omitempty"`
	// What depends on other traffic: whether too many first tries fail, and whether
	// the retry budget is spent. Both are taken to be good.
	ErrorRateHigh bool `json:"error_rate_high,omitempty"`
	BudgetEmpty   bool `json:"retry_budget_empty,omitempty"`
	// At is when the request comes: time windows are held against it, and a
	// Retry-After date. Zero is the Unix epoch, so that an explanation does not
	// depend on when it is asked for.
	At time.Time `json:"at,omitzero"`
}

// Reply is how one try ends.
type Reply struct {
	Status    int     `json:"status,omitempty"`
	Headers   Headers `json:"headers,omitempty"`
	Body      string  `json:"body,omitempty"`
	Failure   string  `json:"failure,omitempty"`
	LatencyMS int64   `json:"latency_ms,omitempty"`
	// Unprocessed: a failure with proof that the upstream did nothing, as a refused
	// stream of HTTP/2 is.
	Unprocessed bool `json:"unprocessed,omitempty"`
}

// Headers are fields by name; JSON may give one value or a list of them.
type Headers map[string]Values

// Values are those of one name.
type Values []string

// UnmarshalJSON reads a string or a list of strings.
func (v *Values) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil && !bytes.Equal(text, []byte("null")) {
		*v = Values{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(text, &list); err != nil || list == nil {
		return errors.New("a header must be a string or a list of strings")
	}
	*v = list
	return nil
}

// MarshalJSON writes a single value as a string.
func (v Values) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return json.Marshal(v[0])
	}
	return json.Marshal([]string(v))
}

// Head makes a head of h, in the order of names so that it is the same each time.
// Values are taken as they stand: nothing is trimmed.
func (h Headers) Head() *exchange.Head {
	head := &exchange.Head{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			head.Add(name, value)
		}
	}
	return head
}

// Get reads the first field of a name in any case.
func (h Headers) Get(name string) string { return h.Head().Get(name) }

// MaxSample bounds the text of a sample.
const MaxSample = 1 << 20

// ParseSample reads the JSON of a sample; what it does not know it refuses.
func ParseSample(text []byte) (Sample, error) {
	var s Sample
	if len(text) > MaxSample {
		return s, fmt.Errorf("sample: must be at most %d bytes, got more", MaxSample)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("sample: %w%s", plain(err), place(text, d.InputOffset(), err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return s, fmt.Errorf("sample: must be one JSON object, got more behind it%s", place(text, d.InputOffset(), nil))
	}
	return s, s.check()
}

// plain says what encoding/json says, without naming Go's own types.
func plain(err error) error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := map[string]string{"int": "a whole number", "int64": "a whole number", "string": "a string", "bool": "true or false"}[t.Type.String()]
		if what == "" {
			what = "of another kind"
		}
		return fmt.Errorf("%s must be %s, got %s", t.Field, what, t.Value)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("must be a JSON object, got the end of the text")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// place names the line at which reading stopped.
func place(text []byte, at int64, err error) string {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = e.Offset
	}
	at = min(max(at, 0), int64(len(text)))
	return fmt.Sprintf(" (line %d)", 1+bytes.Count(text[:at], []byte{'\n'}))
}

// Kinds are the failures a Sample may name.
func Kinds() []string {
	var out []string
	for _, k := range []exchange.Kind{exchange.Dial, exchange.ConnectTimeout, exchange.TLS, exchange.Write, exchange.HeaderTimeout,
		exchange.TryTimeout, exchange.ResetBeforeFirst, exchange.ResetAfterFirst, exchange.BodyCut, exchange.BadResponse} {
		out = append(out, string(k))
	}
	return out
}

const (
	maxAnswers = 16        // more tries than any policy makes
	maxWaitMS  = 3_600_000 // an hour: the longest total a route may have
)

func (s *Sample) check() error {
	switch {
	case s.Route == "" && !strings.HasPrefix(s.Path, "/"):
		return fmt.Errorf("sample: path must begin with /, got %q", s.Path)
	case s.DeadlineMS < 0 || s.DeadlineMS > maxWaitMS:
		return fmt.Errorf("sample: deadline_ms must be 0 to %d, got %d", maxWaitMS, s.DeadlineMS)
	case s.BodyBytes < -1:
		return fmt.Errorf("sample: body_bytes must be -1 or more, got %d", s.BodyBytes)
	case len(s.Answers) > maxAnswers:
		return fmt.Errorf("sample: answers must be at most %d, got %d", maxAnswers, len(s.Answers))
	case len(s.Answers) > 0 && (s.Status != 0 || s.Failure != "" || len(s.ResponseHeaders) > 0 || s.ResponseBody != "" || s.LatencyMS != 0):
		return errors.New("sample: answers must not stand beside status, failure, response_headers, response_body or latency_ms")
	}
	if len(s.Answers) == 0 {
		return s.reply(0).check("sample: ")
	}
	for i := range s.Answers {
		if err := s.Answers[i].check(fmt.Sprintf("sample: answers[%d].", i)); err != nil {
			return err
		}
	}
	return nil
}

func (r Reply) check(where string) error {
	switch {
	case r.Failure == "" && (r.Status < 200 || r.Status > 599):
		return fmt.Errorf("%sstatus must be 200 to 599, or failure be given, got %d", where, r.Status)
	case r.Failure != "" && !slices.Contains(Kinds(), r.Failure):
		return fmt.Errorf("%sfailure must be one of %s, got %q", where, strings.Join(Kinds(), ", "), r.Failure)
	case r.Failure != "" && r.Status != 0:
		return fmt.Errorf("%sstatus and failure must not both be given", where)
	case r.LatencyMS < 0 || r.LatencyMS > maxWaitMS:
		return fmt.Errorf("%slatency_ms must be 0 to %d, got %d", where, maxWaitMS, r.LatencyMS)
	case r.Unprocessed && r.Failure == "":
		return fmt.Errorf("%sunprocessed must stand with a failure", where)
	}
	return nil
}

// reply is how try n ends, counted from 0.
func (s *Sample) reply(n int) Reply {
	if len(s.Answers) > 0 {
		return s.Answers[min(n, len(s.Answers)-1)]
	}
	return Reply{Status: s.Status, Headers: s.ResponseHeaders, Body: s.ResponseBody, Failure: s.Failure, LatencyMS: s.LatencyMS}
}

func (s *Sample) method() string {
	if s.Method == "" {
		return "GET"
	}
	return s.Method
}

func (s *Sample) now() time.Time {
	if s.At.IsZero() {
		return time.Unix(0, 0)
	}
	return s.At
}

func (s *Sample) request() *exchange.Request {
	return &exchange.Request{Method: s.method(), Host: s.Host, Path: s.Path, Head: *s.Headers.Head()}
}
