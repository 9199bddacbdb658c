package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"breakwater/gateway"
	"breakwater/gateway/lease"
	"breakwater/gateway/plan"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/spool"
	"breakwater/internal/auth"
	"breakwater/internal/pglocal"
)

// town is a dozen services of six instances in three racks behind one gateway, that
// callers keep busy. The gateway runs in this process, since its resolver is the
// test's; control and the database are processes of their own, and know the town
// only by what the gateway tells.
type town struct {
	*world
	seed     uint64
	rnd      *rand.Rand
	services []*townService
	names    *townNames
	client   *http.Client
	gateway  *gateway.Gateway
	settings map[string]string // of routes, by service: further lines of their documents
	dead     string            // an address where nobody listens
	mu       sync.Mutex
}

// townCallers are who asks, with their share of a hundred.
var townCallers = []struct {
	name  string
	share int
}{{"web", 40}, {"app", 30}, {"partner", 20}, {"batch", 10}}

// townService is one of the services. What is changed while it serves is atomic.
type townService struct {
	name      string
	instances []*townInstance
	named     bool // endpoints are names and not addresses
	shards    bool // each instance is an upstream of its own, with a part of the traffic
	calls     *townService
	perSecond atomic.Int64
	poison    atomic.Pointer[string] // the caller whose writes carry a payload nobody can read
	behaves   atomic.Pointer[func(in *townInstance, r *http.Request) int]
	only      string // method; "": both
}

type townInstance struct {
	name, rack string
	number     int
	server     *httptest.Server
}

func newTown(t *testing.T, seed uint64) *town {
	w := &world{t: t, dir: t.TempDir(), url: map[string]string{}, began: time.Now()}
	c := &town{world: w, seed: seed, rnd: rand.New(rand.NewPCG(seed, 31)), settings: map[string]string{}}
	w.pgCfg = pglocal.Config{Dir: filepath.Join(w.dir, "pg"), Settings: []string{"fsync=off", "shared_buffers=64MB"}, Log: slog.New(slog.DiscardHandler)}
	w.startDatabase()
	t.Cleanup(func() {
		if err := w.pg.Stop(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(w.pg.Dir())
	})
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.dead = gone.Addr().String()
	_ = gone.Close()
	c.client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	t.Cleanup(c.client.CloseIdleConnections)
	c.names = newTownNames(t)
	for i := range 11 {
		s := &townService{name: fmt.Sprintf("s%02d", i)}
		s.perSecond.Store(14)
		for n := range 6 {
			in := &townInstance{name: fmt.Sprintf("%s-%d", s.name, n+1), rack: "rack-" + string(rune('a'+n/2)), number: n}
			in.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.answer(w, r, s, in) }))
			t.Cleanup(in.server.Close)
			s.instances = append(s.instances, in)
		}
		c.services = append(c.services, s)
	}
	return c
}

// answer is what every instance does.
func (c *town) answer(w http.ResponseWriter, r *http.Request, s *townService, in *townInstance) {
	body, _ := io.ReadAll(r.Body)
	time.Sleep(6 * time.Millisecond) // its work
	status := http.StatusOK
	if bytes.Contains(body, []byte("poison")) {
		status = http.StatusInternalServerError
	}
	if s.calls != nil && status == http.StatusOK && !c.call(r.Context(), s.calls.name, "GET", s.name, "") {
		status = http.StatusBadGateway
	}
	if do := s.behaves.Load(); do != nil && status == http.StatusOK {
		status = (*do)(in, r)
	}
	if s.named {
		w.Header().Set("Connection", "close") // so that names are looked up
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "{}")
}

// call sends one request through the gateway, and tells whether it was answered well.
func (c *town) call(ctx context.Context, service, method, caller, body string) bool {
	req, err := http.NewRequestWithContext(ctx, method, c.url["data"]+"/"+service, strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("X-Caller", caller)
	res, err := c.client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode < 500
}

// documents are what gateway and control are given.
func (c *town) documents() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	b.WriteString("apiVersion: breakwater/v1\nkind: Gateway\nname: gateway-1\nenv: town\ncaller_header: X-Caller\ntrusted_peers: [127.0.0.1]\ncaps: {max_percent: \"100%\"}\n")
	for _, s := range c.services {
		pools := map[string][]*townInstance{s.name: s.instances}
		order := []string{s.name}
		route := "upstream: " + s.name + "\n"
		if s.shards {
			// Behind a balancer an instance alone is hardly an outage: it is left out.
			order, route = nil, "split:\n"
			for i, in := range s.instances {
				order = append(order, in.name)
				pools[in.name] = []*townInstance{in}
				route += fmt.Sprintf("  - {upstream: %s, weight: %d}\n", in.name, []int{17, 17, 17, 17, 16, 16}[i])
			}
		}
		for _, name := range order {
			fmt.Fprintf(&b, "---\napiVersion: breakwater/v1\nkind: Upstream\nname: %s\n%sendpoints:\n", name, c.settings["upstream "+s.name])
			for _, in := range pools[name] {
				address := in.server.Listener.Addr().String()
				if s.named {
					_, port, _ := net.SplitHostPort(address)
					address = in.name + ".town.test:" + port
				}
				if c.settings["dead "+s.name] != "" {
					fmt.Fprintf(&b, "  - {address: %q}\n", c.dead)
					break
				}
				fmt.Fprintf(&b, "  - {address: %q, labels: {instance: %s, rack: %s}}\n", address, in.name, in.rack)
			}
		}
		timeout := c.settings["timeout "+s.name]
		if timeout == "" {
			timeout = "900ms"
			if s.calls != nil || c.settings["route "+s.name] != "" {
				timeout = "3s"
			}
		}
		fmt.Fprintf(&b, "---\napiVersion: breakwater/v1\nkind: Service\nname: %s\n%s", s.name, c.settings["service "+s.name])
		for _, m := range [][2]string{{"read", "GET"}, {"write", "POST"}} {
			fmt.Fprintf(&b, "---\napiVersion: breakwater/v1\nkind: Route\nname: %s-%s\nservice: %s\ncore: true\nmatch: {methods: [%s], path: /%s}\n%stimeout: %s\n%s",
				s.name, m[0], s.name, m[1], s.name, route, timeout, c.settings["route "+s.name])
		}
	}
	return b.String()
}

// publish writes the documents in one step, as whoever deploys them does.
func (c *town) publish() {
	path := filepath.Join(c.dir, "config", "gateway.yaml")
	if err := os.WriteFile(path+".new", []byte(c.documents()), 0o644); err == nil {
		err = os.Rename(path+".new", path)
		if err != nil {
			c.t.Error(err)
		}
	} else {
		c.t.Error(err)
	}
}

// open starts control and the gateway.
func (c *town) open(slos string) {
	t := c.t
	if err := os.MkdirAll(filepath.Join(c.dir, "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(c.dir, "config", "slo.yaml"), slos)
	c.publish()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	data, control := listen(), listen()
	c.url["data"], c.url["control"] = "http://"+data.Addr().String(), "http://"+control.Addr().String()
	c.control = c.process("control", map[string]net.Listener{"control": control}, "control", "--open-loopback", "--control", control.Addr().String(),
		"--state-dir", filepath.Join(c.dir, "state"), "--env", "town", "--config", filepath.Join(c.dir, "config"))
	c.control.start()
	c.ready("control")
	token, err := os.ReadFile(auth.GatewayTokenFile(filepath.Join(c.dir, "state")))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	transport := clientTransport()
	toControl := &http.Client{Transport: &tokenTransport{fixed: strings.TrimSpace(string(token)), next: transport}}
	sp, err := spool.Open(spool.Config{Dir: filepath.Join(c.dir, "spool"), Gateway: "gateway-1", Env: "town", Control: c.url["control"], Client: toControl, Rand: rand.Float64, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	faults := fault.NewTable(fault.Caps{})
	poller := lease.New(lease.Config{URL: c.url["control"], Client: toControl, Table: faults, HaltFile: filepath.Join(c.dir, "halt"), Rand: rand.Float64, Log: log,
		Receipt: func() plan.Receipt {
			r := plan.Receipt{Gateway: "gateway-1", Boot: sp.Boot(), Tallies: c.gateway.Tallies()}
			r.ConfigRevision, r.ConfigHash = c.gateway.Revision()
			return r
		}})
	c.gateway = gateway.New(gateway.Config{Name: "gateway-1", Env: "town", Recorder: sp, Faults: faults, Switch: poller, Rand: rand.Float64, Log: log, Dial: c.names.dialer().DialContext})
	read := make(chan struct{})
	closed := sync.OnceFunc(func() { close(read) })
	keep, stopKeeping := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	for _, do := range []func(context.Context) error{sp.Ship, poller.Run, c.gateway.Run} {
		kept.Go(func() { _ = do(keep) })
	}
	t.Cleanup(func() {
		stopKeeping()
		kept.Wait()
		end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := sp.Close(end); err != nil {
			t.Log(err)
		}
		transport.CloseIdleConnections()
	})
	c.background(func(ctx context.Context) error {
		return follow(ctx, filepath.Join(c.dir, "config", "gateway.yaml"), c.gateway, log, closed)
	})
	<-read
	c.background(func(ctx context.Context) error { return c.gateway.Serve(ctx, data) })
}

// busy has every service asked at its rate until the test ends.
func (c *town) busy() {
	for i, s := range c.services {
		rnd := rand.New(rand.NewPCG(c.seed, uint64(i)))
		c.background(func(ctx context.Context) error {
			var group sync.WaitGroup
			defer group.Wait()
			permits := make(chan struct{}, 400)
			for due := time.Now(); ; {
				due = due.Add(time.Duration((0.5 + rnd.Float64()) * float64(time.Second) / float64(s.perSecond.Load())))
				if late := time.Since(due); late > time.Second {
					due = time.Now() // a machine that stood still is not to make up for it
				}
				caller, at := "", rnd.IntN(100)
				for _, k := range townCallers {
					if at -= k.share; at < 0 {
						caller = k.name
						break
					}
				}
				method, body := "GET", ""
				if rnd.IntN(2) == 0 && s.only == "" {
					method, body = "POST", `{"n":1}`
					if p := s.poison.Load(); p != nil && *p == caller {
						body = `{"poison":1}`
					}
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Until(due)):
				}
				select {
				case permits <- struct{}{}:
					group.Go(func() {
						defer func() { <-permits }()
						c.call(context.WithoutCancel(ctx), s.name, method, caller, body)
					})
				default: // too many wait already
				}
			}
		})
	}
}

// townNames is a name server of one zone, which may lose names.
type townNames struct {
	conn net.PacketConn
	lost sync.Map // names with this prefix do not exist
}

func newTownNames(t *testing.T) *townNames {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &townNames{conn: conn}
	var done sync.WaitGroup
	done.Go(n.serve)
	t.Cleanup(func() { _ = conn.Close(); done.Wait() })
	return n
}

func (n *townNames) dialer() *net.Dialer {
	server := n.conn.LocalAddr().String()
	return &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server)
	}}}
}

func (n *townNames) serve() {
	buf := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:size]) != nil || len(m.Questions) == 0 {
			continue
		}
		q := m.Questions[0]
		service, _, _ := strings.Cut(q.Name.String(), "-")
		_, lost := n.lost.Load(service)
		answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionDesired: m.RecursionDesired}, Questions: m.Questions[:1]}
		switch {
		case lost || !strings.HasSuffix(q.Name.String(), ".town.test."):
			answer.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			answer.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
		}
		if packed, err := answer.Pack(); err == nil {
			_, _ = n.conn.WriteTo(packed, from)
		}
	}
}
