package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"breakwater/gateway/config"
	"breakwater/gateway/policy/limiter"
)

func newLimit(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "limit", Short: "compute a limit from what it protects"}
	cmd.AddCommand(limitSize(io))
	return cmd
}

// sizing is the answer of limit size.
type sizing struct {
	Pool       int64 `json:"pool"`
	HoldUS     int64 `json:"hold_us"` // the mean time a request holds its part of the pool
	UsePPM     int64 `json:"use_ppm"` // the share of the pool that is to be used
	PerSecond  int64 `json:"per_second"`
	Replicas   int64 `json:"replicas"`
	PerReplica int64 `json:"per_replica"` // for a bucket in each gateway
	// From a running gateway.
	Upstream string       `json:"upstream,omitempty"`
	Measured *holdReading `json:"measured,omitempty"`
	// Limits are those in force for the whole of a route, and Total their sum.
	Limits []routeLimit `json:"limits,omitempty"`
	Total  string       `json:"limits_per_second,omitempty"`
	Fits   *bool        `json:"fits,omitempty"` // nil: there is nothing to compare with
}

type holdReading struct {
	Tries  int64 `json:"tries"`
	P50US  int64 `json:"p50_us"`
	P95US  int64 `json:"p95_us"`
	OverMS int64 `json:"over_ms"`
}

type routeLimit struct {
	Route string       `json:"route"`
	Rate  limiter.Rate `json:"rate"`
}

type sizeFlags struct {
	pool, replicas, limit int64
	hold, headroom        string
	gateway, upstream     string
	output                string
}

func limitSize(io streams) *cobra.Command {
	var f sizeFlags
	cmd := &cobra.Command{
		Use:   "size",
		Short: "how many requests a second a pool can carry",
		Long: "Computes pool x (100% - headroom) / hold time, rounded down: what a limit in front of a pool\n" +
			"of connections, threads or slots may let through. The hold time is how long one request\n" +
			"holds its part of the pool on average, out of a load test; with --gateway it is what that\n" +
			"gateway measured in the last five to ten minutes, and the limits of routes to the upstream\n" +
			"are held against the result. Nothing is changed: a limit is raised by people.\n" +
			"Exit code 0: computed, and no limit is too high; 1: a limit in force (or --limit) lets more\n" +
			"through than the pool carries; 2: a number that cannot be; 4: the gateway cannot be reached,\n" +
			"has no such upstream, or has measured nothing yet.",
		Example: "  breakwater limit size --pool 200 --hold 50ms --headroom 25%\n" +
			"  breakwater limit size --pool 200 --hold 50ms --limit 4000\n" +
			"  breakwater limit size --pool 200 --gateway http://127.0.0.1:15000 --upstream order -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.size(cmd.Context(), cmd.Flags().Changed("limit"))
			if err != nil {
				return err
			}
			if f.output == "json" {
				err = printJSON(io.out, s)
			} else {
				err = s.write(io.out)
			}
			if err != nil {
				return exit(exitInternal, err)
			}
			if s.Fits != nil && !*s.Fits {
				return codeOnly(exitNo)
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.Int64Var(&f.pool, "pool", 0, "how many requests the protected resource can hold at once")
	fl.StringVar(&f.hold, "hold", "", "how long one request holds it on average, such as 50ms or 43.7ms")
	fl.StringVar(&f.headroom, "headroom", "25%", "the share of the pool that stays free")
	fl.Int64Var(&f.replicas, "replicas", 1, "how many gateways share the pool")
	fl.Int64Var(&f.limit, "limit", 0, "a limit in requests a second to hold against the result")
	fl.StringVar(&f.gateway, "gateway", "", "admin URL of a running gateway: measured instead of --hold")
	fl.StringVar(&f.upstream, "upstream", "", "the upstream whose hold times count, with --gateway")
	fl.StringVarP(&f.output, "output", "o", "table", "table or json")
	return cmd
}

func (f *sizeFlags) size(ctx context.Context, hasLimit bool) (*sizing, error) {
	if err := checkOutput(f.output); err != nil {
		return nil, err
	}
	usage := func(format string, args ...any) (*sizing, error) {
		return nil, exit(exitUsage, fmt.Errorf(format, args...))
	}
	headroom, ok := percent(f.headroom)
	switch {
	case f.pool < 1:
		return usage("--pool: must be at least 1, got %d", f.pool)
	case !ok:
		return usage("--headroom: must be a share of 0%% to less than 100%%, such as 25%%, got %q", f.headroom)
	case f.replicas < 1:
		return usage("--replicas: must be at least 1, got %d", f.replicas)
	case hasLimit && f.limit < 1:
		return usage("--limit: must be at least 1, got %d", f.limit)
	case (f.gateway == "") == (f.hold == ""):
		return usage("--hold, --gateway: must have one of them")
	case (f.gateway == "") != (f.upstream == ""):
		return usage("--upstream: must stand beside --gateway")
	}
	s := &sizing{Pool: f.pool, UsePPM: 1_000_000 - headroom, Replicas: f.replicas}
	var hold time.Duration
	if f.gateway == "" {
		var err error
		if hold, err = time.ParseDuration(f.hold); err != nil || hold < time.Microsecond {
			return usage("--hold: must be a time of at least a microsecond, such as 50ms or 43.7ms, got %q", f.hold)
		}
	} else {
		var err error
		if hold, err = f.live(ctx, s); err != nil {
			return nil, err
		}
	}
	var err error
	if s.PerSecond, err = limiter.Size(s.Pool, hold, s.UsePPM); err != nil {
		return nil, exit(exitUsage, err)
	}
	s.HoldUS, s.PerReplica = hold.Microseconds(), s.PerSecond/s.Replicas
	s.compare(f.limit)
	return s, nil
}

// compare holds the limits in force, or else one that was typed, against the size.
func (s *sizing) compare(typed int64) {
	total := new(big.Rat)
	for _, l := range s.Limits {
		total.Add(total, big.NewRat(l.Rate.Tokens*int64(time.Second), int64(l.Rate.Per)))
	}
	most := s.PerReplica // each gateway has a bucket of its own
	if typed > 0 {
		total, most = big.NewRat(typed, 1), s.PerSecond
	}
	if total.Sign() == 0 {
		return
	}
	fits := total.Cmp(big.NewRat(most, 1)) <= 0
	s.Fits, s.Total = &fits, strings.TrimSuffix(strings.TrimRight(total.FloatString(3), "0"), ".")
}

var share = regexp.MustCompile(`^([0-9]{1,2})(?:\.([0-9]{1,4}))?%$`)

// percent reads a share below 100% in parts per million.
func percent(text string) (ppm int64, ok bool) {
	m := share.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	for _, digit := range m[1] + (m[2] + "0000")[:4] {
		ppm = ppm*10 + int64(digit-'0')
	}
	return ppm, true
}

// live reads hold times and limits of the upstream from a gateway.
func (f *sizeFlags) live(ctx context.Context, s *sizing) (time.Duration, error) {
	var stats struct {
		Upstreams map[string]struct {
			Hold struct {
				Measured int64 `json:"measured"`
				MeanUS   int64 `json:"mean_us"`
				P50US    int64 `json:"p50_us"`
				P95US    int64 `json:"p95_us"`
				OverMS   int64 `json:"over_ms"`
			} `json:"hold"`
		} `json:"upstreams"`
	}
	if err := f.read(ctx, "/stats", &stats); err != nil {
		return 0, err
	}
	up, ok := stats.Upstreams[f.upstream]
	if !ok {
		return 0, exit(exitUnknown, fmt.Errorf("the gateway at %s has no upstream %q", f.gateway, f.upstream))
	}
	if up.Hold.Measured == 0 {
		return 0, exit(exitUnknown, fmt.Errorf("the gateway at %s has measured no hold time of %s yet", f.gateway, f.upstream))
	}
	s.Upstream = f.upstream
	s.Measured = &holdReading{Tries: up.Hold.Measured, P50US: up.Hold.P50US, P95US: up.Hold.P95US, OverMS: up.Hold.OverMS}
	var doc struct {
		Config struct {
			Routes []struct {
				Name     string          `json:"name"`
				Upstream string          `json:"upstream"`
				Split    []config.Branch `json:"split"`
				Limit    limiter.Config  `json:"limit"`
			} `json:"routes"`
		} `json:"config"`
	}
	if err := f.read(ctx, "/debug/config", &doc); err != nil {
		return 0, err
	}
	for _, r := range doc.Config.Routes {
		goes := r.Upstream == f.upstream || slices.ContainsFunc(r.Split, func(b config.Branch) bool { return b.Upstream == f.upstream })
		if goes && r.Limit.Rate.Tokens > 0 && r.Limit.Key.By == limiter.ByRoute && !r.Limit.Observe {
			s.Limits = append(s.Limits, routeLimit{r.Name, r.Limit.Rate})
		}
	}
	return max(time.Duration(up.Hold.MeanUS)*time.Microsecond, time.Microsecond), nil
}

func (f *sizeFlags) read(ctx context.Context, path string, into any) error {
	base, err := url.Parse(strings.TrimSuffix(f.gateway, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return exit(exitUsage, fmt.Errorf("--gateway: must be a URL such as http://127.0.0.1:15000, got %q", f.gateway))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String()+path, nil)
	if err != nil {
		return exit(exitUsage, fmt.Errorf("--gateway: %w", err))
	}
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return exit(exitUnknown, fmt.Errorf("ask the gateway: %w", err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return exit(exitUnknown, fmt.Errorf("the gateway at %s answered %s to %s", f.gateway, res.Status, path))
	}
	err = json.NewDecoder(io.LimitReader(res.Body, maxReply)).Decode(into)
	if err != nil {
		return exit(exitUnknown, errors.Join(fmt.Errorf("the answer of %s to %s is not a gateway's", f.gateway, path), err))
	}
	return nil
}

func (s *sizing) write(w io.Writer) error {
	hold := time.Duration(s.HoldUS) * time.Microsecond
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests a second: %s of a pool of %d, each held for %v\n", s.PerSecond, ppmText(s.UsePPM), s.Pool, hold)
	if s.Replicas > 1 {
		fmt.Fprintf(&b, "%d a second for each of %d gateways, or a shared quota of %d/s\n", s.PerReplica, s.Replicas, s.PerSecond)
	}
	if m := s.Measured; m != nil {
		fmt.Fprintf(&b, "%s: %d tries measured over %v, P50 %v, P95 %v\n", s.Upstream, m.Tries, (time.Duration(m.OverMS) * time.Millisecond).Round(time.Second),
			time.Duration(m.P50US)*time.Microsecond, time.Duration(m.P95US)*time.Microsecond)
	}
	for _, l := range s.Limits {
		fmt.Fprintf(&b, "route %s: limit %d each %v, burst %d\n", l.Route, l.Rate.Tokens, l.Rate.Per, l.Rate.Burst)
	}
	if s.Fits != nil && *s.Fits {
		fmt.Fprintf(&b, "fits: %s a second\n", s.Total)
	} else if s.Fits != nil {
		fmt.Fprintf(&b, "TOO HIGH: %s a second\n", s.Total)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ppmText(ppm int64) string {
	text := fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}
