package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"breakwater/slo/alert"
	"breakwater/web"
)

// pageSystem is what the pages of an admin look at: the checks of the doctor, the
// admin ports of the gateways that control was told of, and the database.
type pageSystem struct {
	c       *control
	address string // where control itself listens
}

// newSystem also knows where control is reached from its own machine.
func (c *control) newSystem(l net.Listener) *pageSystem {
	s := &pageSystem{c: c, address: l.Addr().String()}
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		s.address = net.JoinHostPort("127.0.0.1", fmt.Sprint(a.Port))
	}
	return s
}

func (s *pageSystem) Routes() []alert.Route { return s.c.releases.alerts.Routes() }

func (s *pageSystem) Deliveries(ctx context.Context, since time.Time) ([]alert.Delivered, error) {
	return s.c.store.Deliveries(ctx, since)
}

func (s *pageSystem) Sizes(ctx context.Context) (web.Sizes, error) {
	bytes, version, tables, err := s.c.store.Sizes(ctx)
	if err != nil {
		return web.Sizes{}, err
	}
	out := web.Sizes{Version: version, Bytes: bytes}
	for _, t := range tables {
		out.Tables = append(out.Tables, web.TableSize{Name: t.Name, Parts: t.Parts, Rows: t.Rows, TableBytes: t.TableBytes, IndexBytes: t.IndexBytes, All: t.TotalBytes})
	}
	return out, nil
}

// usualAdmin is where a gateway of this machine is, if nobody says otherwise.
const usualAdmin = "127.0.0.1:15000"

// admins are the ports to ask, and whether somebody named them.
func (s *pageSystem) admins() (list []string, named bool) {
	for _, a := range s.c.opt.gatewayAdmins {
		if a = strings.TrimSpace(a); a != "" {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return []string{usualAdmin}, false
	}
	return list, true
}

// doctor is one that looks from control's place. It asks addresses of the command
// line only, and none that a request names.
func (s *pageSystem) doctor(admin string) (*doctor, func()) {
	set := s.c.set
	set.control, set.admin = "http://"+s.address, admin
	d := &doctor{set: set, client: &http.Client{Transport: clientTransport(), Timeout: 2 * time.Second}, now: time.Now, examined: &s.c.examined}
	return d, d.client.CloseIdleConnections
}

func (s *pageSystem) Examine(ctx context.Context) []web.Examined {
	admins, told := s.admins()
	d, done := s.doctor(admins[0])
	defer done()
	named := func(flag string) bool { return flag != "admin" || told }
	d.examine(ctx, named)
	for _, more := range admins[1:] {
		d.set.admin = more
		d.gateway(ctx, named)
	}
	out := make([]web.Examined, len(d.found))
	for i, f := range d.found {
		out[i] = web.Examined(f)
	}
	return out
}

func (s *pageSystem) Gateways(ctx context.Context) []web.GatewayStats {
	admins, named := s.admins()
	all := make([]web.GatewayStats, len(admins))
	var wait sync.WaitGroup
	for i, admin := range admins {
		wait.Go(func() {
			d, done := s.doctor(admin)
			defer done()
			all[i] = d.figures(ctx)
		})
	}
	wait.Wait()
	if !named && all[0].Trouble != "" {
		return nil
	}
	return all
}

// figures are what one gateway says of itself on its admin port.
func (d *doctor) figures(ctx context.Context) web.GatewayStats {
	out := web.GatewayStats{Address: d.set.admin}
	cfg, s, _, err := d.ask(ctx)
	if err != nil {
		out.Trouble = err.Error()
		return out
	}
	out.Revision, out.LastError, out.Draining, out.Connections = cfg.Revision, firstLine(cfg.LastError), s.Draining, s.Connections.Open
	if cfg.AppliedAt != nil {
		out.AppliedAt = *cfg.AppliedAt
	}
	for _, up := range s.Upstreams {
		for _, e := range up.Endpoints {
			out.Endpoints, out.InFlight = out.Endpoints+1, out.InFlight+e.InFlight
			if e.State == "ready" {
				out.Ready++
			}
		}
	}
	out.Dropped, out.Unshipped, out.SpoolError, out.Faults = s.Spool.Dropped, int64(len(s.Spool.Unshipped)), firstLine(s.Spool.LastError), int64(len(s.Faults.Armed))
	return out
}
