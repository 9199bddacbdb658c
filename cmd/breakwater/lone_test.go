package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// loneGateway starts a gateway alone, without control, that follows file, and
// waits until it is ready.
func loneGateway(t *testing.T, text string, flags ...string) (w *world, file string) {
	t.Helper()
	w = &world{t: t, dir: t.TempDir(), url: map[string]string{}}
	file = filepath.Join(w.dir, "gw.yaml")
	write(t, file, text)
	w.gateway = w.alone("gateway", file, "data", "admin", flags...)
	return w, file
}

// alone starts one more gateway without control. data and admin are the names of
// its addresses.
func (w *world) alone(name, config, data, admin string, flags ...string) *process {
	w.t.Helper()
	listeners := map[string]net.Listener{}
	for role, as := range map[string]string{"data": data, "admin": admin} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = l.Close() })
		listeners[role], w.url[as] = l, "http://"+l.Addr().String()
	}
	p := w.process(name, listeners, append([]string{"gateway", "--name", name + "-1", "--env", "test", "--config", config,
		"--state-dir", filepath.Join(w.dir, name+"-state")}, flags...)...)
	p.start()
	w.ready(admin)
	return p
}

// host is an address of w without its scheme.
func (w *world) host(name string) string { return strings.TrimPrefix(w.url[name], "http://") }
