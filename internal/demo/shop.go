package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/sync/errgroup"
)

// Mode is how a service behaves.
type Mode string

// The modes.
const (
	Fine       Mode = "fine"
	Failing    Mode = "failing"    // 500 to everything
	Overloaded Mode = "overloaded" // 503 with X-Backend-Status: overloaded
	Slow       Mode = "slow"       // fine, after two seconds
	HangingUp  Mode = "hanging_up" // the connection is closed without an answer
)

func (m Mode) known() bool {
	switch m {
	case Fine, Failing, Overloaded, Slow, HangingUp:
		return true
	}
	return false
}

// ShopConfig shapes a Shop.
type ShopConfig struct {
	Seed uint64
	// Gateway is the data plane's base URL, through which order calls the others.
	// Where it is known only later, SetGateway says it.
	Gateway string
	// Ledger gets the answers that order had from the others; nil: a new one.
	Ledger *Ledger
	// OneIn is how rarely an answer fails by nature; 0 means 3000, negative never.
	OneIn int
}

// Shop is the four services, listening on loopback.
type Shop struct {
	cfg     ShopConfig
	gateway atomic.Pointer[string]
	modes   map[string]*atomic.Pointer[Mode] // fixed keys
	servers []*instance
	client  *http.Client
	orders  orders
}

type instance struct {
	service, name string
	listener      net.Listener
	server        *http.Server
}

// Endpoint is where one instance of a service listens.
type Endpoint struct {
	Address, Instance, Rack, Zone string
}

// Open listens on free ports of this machine: two instances of order, one of
// each other. Run answers; Close without Run gives the ports back.
func Open(cfg ShopConfig) (*Shop, error) {
	if cfg.OneIn == 0 {
		cfg.OneIn = 3000
	}
	if cfg.Ledger == nil {
		cfg.Ledger = NewLedger(nil)
	}
	s := &Shop{cfg: cfg, modes: make(map[string]*atomic.Pointer[Mode]), client: newClient()}
	s.SetGateway(cfg.Gateway)
	for _, service := range Services() {
		s.modes[service] = new(atomic.Pointer[Mode])
		s.modes[service].Store(new(Fine))
		instances := 1
		if service == Order {
			instances = 2
		}
		for n := 1; n <= instances; n++ {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, errors.Join(fmt.Errorf("open %s: %w", service, err), s.Close())
			}
			name := fmt.Sprintf("%s-%d", service, n)
			s.servers = append(s.servers, &instance{service, name, l, &http.Server{
				Handler: s.handler(service, name), ReadHeaderTimeout: 10 * time.Second}})
		}
	}
	return s, nil
}

// SetGateway says where the data plane is.
func (s *Shop) SetGateway(url string) { s.gateway.Store(&url) }

// Endpoints tells where service listens.
func (s *Shop) Endpoints(service string) []Endpoint {
	var out []Endpoint
	for i, in := range s.servers {
		if in.service == service {
			// Two racks in turn, so that the two instances of order stand apart.
			out = append(out, Endpoint{in.listener.Addr().String(), in.name, "rack-" + string(rune('a'+i%2)), "local"})
		}
	}
	return out
}

// Break makes a service behave in a mode from now on; Fine heals it.
func (s *Shop) Break(service string, m Mode) error {
	at, ok := s.modes[service]
	if !ok || !m.known() {
		return fmt.Errorf("break %q as %q: no such service or mode", service, m)
	}
	at.Store(&m)
	return nil
}

// Mode tells how a service behaves; "" for a stranger.
func (s *Shop) Mode(service string) Mode {
	if at, ok := s.modes[service]; ok {
		return *at.Load()
	}
	return ""
}

// Run answers until ctx ends; calls under way get five seconds to end.
func (s *Shop) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, in := range s.servers {
		g.Go(func() error {
			if err := in.server.Serve(in.listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", in.name, err)
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := in.server.Shutdown(grace); err != nil {
				return errors.Join(fmt.Errorf("stop %s: %w", in.name, err), in.server.Close())
			}
			return nil
		})
	}
	err := g.Wait()
	s.client.CloseIdleConnections()
	return err
}

// Close gives the ports back at once.
func (s *Shop) Close() error {
	var errs []error
	for _, in := range s.servers {
		_ = in.listener.Close() // closed already where Run has served
		errs = append(errs, in.server.Close())
	}
	return errors.Join(errs...)
}

func (s *Shop) handler(service, name string) http.Handler {
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, service, name, next) })
	})
	for _, op := range Operations() {
		if op.Service == service {
			r.Method(op.Method, op.Pattern, s.operation(op))
		}
	}
	return r
}

// serve does what every instance does: take its time, and fail now and then.
func (s *Shop) serve(w http.ResponseWriter, r *http.Request, service, name string, next http.Handler) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Served-By", name)
	mode := s.Mode(service)
	// A second try of one request draws anew, or a retry could never help.
	try := []string{service, r.Method, r.URL.Path, r.Header.Get(idHeader), r.Header.Get("Retry-Count")}
	d := draw(s.cfg.Seed, append(try, "took")...)
	took := 2*time.Millisecond + time.Duration(d*d*d*18*float64(time.Millisecond)) // most are quick, few take 20 ms
	if mode == Slow {
		took += 2 * time.Second
	}
	select {
	case <-time.After(took):
	case <-r.Context().Done():
		return
	}
	switch mode {
	case Failing:
		fail(w, http.StatusInternalServerError, "database is read-only")
		return
	case Overloaded:
		overloaded(w)
		return
	case HangingUp:
		panic(http.ErrAbortHandler) // net/http's own way to drop the connection
	}
	if s.cfg.OneIn > 0 && draw(s.cfg.Seed, append(try, "fails")...)*float64(s.cfg.OneIn) < 1 {
		if draw(s.cfg.Seed, append(try, "how")...) < 0.5 {
			fail(w, http.StatusBadGateway, "upstream connection lost")
		} else {
			overloaded(w)
		}
		return
	}
	next.ServeHTTP(w, r)
}

func overloaded(w http.ResponseWriter) {
	w.Header().Set("X-Backend-Status", "overloaded")
	fail(w, http.StatusServiceUnavailable, "overloaded")
}

func fail(w http.ResponseWriter, status int, why string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"error":` + strconv.Quote(why) + "}\n")) // the caller may have gone
}
