package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"breakwater/internal/conf"
)

// Query is a cause that a Prometheus is asked about, again and again: an L2 fact for
// as long as the answer says so, and for as long as no answer can be had.
type Query struct {
	Name         string
	Service, Env string
	URL          string // of Prometheus, without /api/v1
	Expr         string
	Text         string
	Every        time.Duration
	SecretFile   string // bearer token; "": none
	AllowPrivate bool
}

// Bounds of a query.
const (
	askWithin = 5 * time.Second
	maxAnswer = 1 << 20
	askAtOnce = 4
)

func decodeQuery(n conf.Node) Query {
	m := n.Map()
	q := Query{Name: m.Need("name").Name(), Service: m.Need("service").Name(), Env: m.Need("environment").Name()}
	q.URL, q.Expr, q.Text = address(m.Need("prometheus")), m.Need("query").Str(""), m.Need("text").Str("")
	q.Every = m.Get("every").Span(30*time.Second, 5*time.Second, time.Hour)
	q.SecretFile = m.Get("secret_file").Str("")
	q.AllowPrivate, _ = m.Get("allow_private").Bool(false)
	if len(q.Text) > 300 {
		m.Get("text").Errorf("must be at most 300 bytes, got %d", len(q.Text))
	}
	m.Done()
	return q
}

// Reply is what a Prometheus says to a query.
type Reply struct {
	Holds bool
	// Value is one of the values it holds by, and Series how many there are.
	Value  string
	Series int
}

// ErrNoReply says that nothing can be concluded from an answer.
var ErrNoReply = errors.New("no answer to go by")

// ReadReply reads an answer of Prometheus' HTTP API to an instant query. As for its
// own alerting rules a vector holds by having a series, whatever its value; a scalar by
// not being zero. NaN, errors and everything else conclude nothing.
func ReadReply(body []byte) (Reply, error) {
	var in struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Reply{}, fmt.Errorf("%w: it is no JSON of Prometheus", ErrNoReply)
	}
	if in.Status != "success" {
		return Reply{}, fmt.Errorf("%w: %s %s", ErrNoReply, in.Status, clip(oneLine([]byte(in.Error)), 200))
	}
	switch in.Data.ResultType {
	case "vector":
		var series []struct{ Value []any }
		if err := json.Unmarshal(in.Data.Result, &series); err != nil || series == nil {
			return Reply{}, fmt.Errorf("%w: its vector cannot be read", ErrNoReply)
		}
		r := Reply{Series: len(series), Holds: len(series) > 0}
		for i, s := range series {
			v, ok := sample(s.Value)
			if !ok {
				return Reply{}, fmt.Errorf("%w: a series without a value, or NaN", ErrNoReply)
			}
			if i == 0 {
				r.Value = v
			}
		}
		return r, nil
	case "scalar":
		var pair []any
		_ = json.Unmarshal(in.Data.Result, &pair) // what it is not, sample refuses
		v, ok := sample(pair)
		if !ok {
			return Reply{}, fmt.Errorf("%w: a scalar without a value, or NaN", ErrNoReply)
		}
		return Reply{Holds: strings.Trim(v, "-+0.") != "", Value: v, Series: 1}, nil
	}
	return Reply{}, fmt.Errorf("%w: a result of type %.40q", ErrNoReply, in.Data.ResultType)
}

// sample is the value of a pair of instant and text.
func sample(pair []any) (string, bool) {
	if len(pair) != 2 {
		return "", false
	}
	v, ok := pair[1].(string)
	return v, ok && v != "" && v != "NaN" && len(v) <= 40
}

// Queries are those of the routes in force.
func (e *Engine) Queries() []Query {
	var out []Query
	for _, r := range e.Routes() {
		out = append(out, r.Queries...)
	}
	return out
}

// Asker asks about queries and keeps what they say as facts.
type Asker struct {
	Queries func() []Query
	Keep    func(ctx context.Context, f Fact) error
	// Guard judges the address that is about to be dialled; nil: as for receivers.
	Guard func(allowPrivate bool) func(network, address string, _ syscall.RawConn) error
	Log   *slog.Logger // nil: none

	asked map[string]time.Time // by name: when last
	holds map[string]bool      // told to hold, and not told to be over
}

// Tick asks what is due at now. It is not called at once from two places.
func (a *Asker) Tick(ctx context.Context, now time.Time) {
	if a.asked == nil {
		a.asked, a.holds = map[string]time.Time{}, map[string]bool{}
	}
	var due []Query
	for _, q := range a.Queries() {
		if now.Sub(a.asked[q.Name]) >= q.Every {
			a.asked[q.Name] = now
			due = append(due, q)
		}
	}
	facts := make([]*Fact, len(due))
	var group sync.WaitGroup
	places := make(chan struct{}, askAtOnce)
	for i, q := range due {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			r, err := a.ask(ctx, q)
			facts[i] = q.fact(r, err, now)
		})
	}
	group.Wait()
	for i, q := range due {
		f, key := facts[i], q.key()
		if f == nil && a.holds[key] {
			f = &Fact{Service: q.Service, Env: q.Env, Key: key, Text: q.Text, At: now, Until: now} // over
		}
		if f == nil || ctx.Err() != nil {
			continue
		}
		f.By = "query " + q.Name
		if err := a.Keep(ctx, *f); err != nil {
			if a.Log != nil {
				a.Log.Warn("a fact is not kept", "query", q.Name, "err", err)
			}
			continue // said again next time
		}
		a.holds[key] = f.Until.After(now)
	}
}

func (q Query) key() string { return "query:" + q.Name }

// fact is what follows from an answer; nil: the cause is not there. That nobody can
// tell is a fact as well: an error must not look like health.
func (q Query) fact(r Reply, err error, now time.Time) *Fact {
	f := Fact{Service: q.Service, Env: q.Env, Key: q.key(), At: now, Until: now.Add(2*q.Every + askWithin)}
	switch {
	case err != nil:
		f.Text = fmt.Sprintf("unknown whether %s: %s", q.Text, clip(err.Error(), 150))
	case !r.Holds:
		return nil
	case r.Series > 1:
		f.Text = fmt.Sprintf("%s (%s, and %d series more)", q.Text, r.Value, r.Series-1)
	default:
		f.Text = fmt.Sprintf("%s (%s)", q.Text, r.Value)
	}
	return &f
}

func (a *Asker) ask(ctx context.Context, q Query) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	at := strings.TrimSuffix(q.URL, "/") + "/api/v1/query?" + url.Values{"query": {q.Expr}, "timeout": {"4s"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return Reply{}, errors.New("the address is none")
	}
	if q.SecretFile != "" {
		b, err := os.ReadFile(q.SecretFile)
		if err != nil {
			return Reply{}, fmt.Errorf("read the secret: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(b)))
	}
	req.Header.Set("User-Agent", "breakwater")
	judge := a.Guard
	if judge == nil {
		judge = guard
	}
	dialer := &net.Dialer{Timeout: 3 * time.Second, Control: judge(q.AllowPrivate)}
	client := http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // net/http names the address
		}
		return Reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return Reply{}, err
	}
	if len(body) > maxAnswer {
		return Reply{}, fmt.Errorf("%w: it is larger than 1 MiB: ask for less", ErrNoReply)
	}
	// Prometheus says what is wrong with a query in the body of a 4xx.
	r, err := ReadReply(body)
	if err != nil || resp.StatusCode == http.StatusOK {
		return r, err
	}
	return Reply{}, fmt.Errorf("%w: answered %d", ErrNoReply, resp.StatusCode)
}

// Run asks until ctx ends.
func (a *Asker) Run(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		a.Tick(ctx, time.Now().UTC().Truncate(time.Microsecond))
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
