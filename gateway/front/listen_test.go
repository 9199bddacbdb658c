package front_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
)

func secure(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"app.example"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
	}
}

// scheme answers with the protocol and the scheme of the request.
func schemes(x *exchange.Exchange) error {
	s := fmt.Sprintf("%d %s %s", x.Request.Proto, x.Request.Scheme, x.Request.Head.Get("X-Forwarded-Proto"))
	x.Response.Status, x.Response.Length, x.Response.Body = 200, int64(len(s)), text(s)
	return nil
}

func TestProtocols(t *testing.T) {
	cert := secure(t)
	for _, tt := range []struct {
		name  string
		how   front.Listening
		h2    bool // the client can
		plain bool
		want  string // "": no answer
	}{
		{"plain", front.Listening{}, false, true, "11 http http"},
		{"h2c", front.Listening{}, true, true, "20 http http"},
		{"no h2c", front.Listening{HTTP1Only: true}, true, true, ""},
		{"TLS", front.Listening{TLS: cert}, false, false, "11 https https"},
		{"TLS and HTTP/2", front.Listening{TLS: cert}, true, false, "20 https https"},
		{"plain where TLS is spoken", front.Listening{TLS: cert}, false, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(schemes), Listening: func() front.Listening { return tt.how }})
			address := serve(t, f)
			tr := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			defer tr.CloseIdleConnections()
			url := "https://" + address
			switch {
			case tt.plain && tt.h2:
				tr.Protocols.SetUnencryptedHTTP2(true)
			case tt.h2:
				tr.Protocols.SetHTTP2(true)
			default:
				tr.Protocols.SetHTTP1(true)
			}
			if tt.plain {
				url = "http://" + address
			}
			res, err := tr.RoundTrip(request(t, url, nil))
			if tt.want == "" {
				if err == nil {
					t.Errorf("answered %d", res.StatusCode)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(res.Body); err != nil || string(body) != tt.want {
				t.Errorf("got %q, %v, want %q", body, err, tt.want)
			}
		})
	}
}

// TestALPNIsKept: who agreed on HTTP/1.1 does not speak HTTP/2, nor the other way.
func TestALPNIsKept(t *testing.T) {
	how := front.Listening{TLS: secure(t)}
	address := serve(t, front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(schemes), Listening: func() front.Listening { return how }}))
	for protocol, sent := range map[string]string{
		"http/1.1": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "h2": "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if got, _ := io.ReadAll(c); len(got) > 0 {
			t.Errorf("%s: answered %q", protocol, got)
		}
		_ = c.Close()
	}
}

func TestCaps(t *testing.T) {
	for _, tt := range []struct {
		name string
		how  front.Listening
		want front.Stats
	}{
		{"in total", front.Listening{Max: 2}, front.Stats{Open: 2, TooMany: 1}},
		{"of one address", front.Listening{PerAddress: 2}, front.Stats{Open: 2, TooManyOfOne: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(schemes), Listening: func() front.Listening { return tt.how }})
			address := serve(t, f)
			var held []net.Conn
			for range 2 {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				held = append(held, c)
				ask(t, c)
			}
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Error("one too many was taken")
			}
			s := f.Stats()
			if s.Fast, s.Standard = 0, 0; s != tt.want { // they count answers, which may be under way
				t.Errorf("counted %+v, want %+v", s, tt.want)
			}
			ask(t, held[0]) // those that are in stay
			_ = held[0].Close()
			until(t, func() bool { return f.Stats().Open == 1 })
			c, err = net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ask(t, c)
		})
	}
}

func ask(t *testing.T, c net.Conn) { t.Helper(); askFor(t, c, "/a") }

func askFor(t *testing.T, c net.Conn, path string) {
	t.Helper()
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 10 s")
		}
	}
}

// TestUnparsed: what net/http refuses by itself is told, and what handlers answer
// is not.
func TestUnparsed(t *testing.T) { onBoth(t, testUnparsed) }

func testUnparsed(t *testing.T, on func() front.Listening) {
	told := make(chan int, 10)
	address := serve(t, front.New(front.Config{
		Listening: on,
		Log:       slog.New(slog.DiscardHandler), Limits: front.Limits{Head: 8 << 10},
		Service:  exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 404; return nil }),
		Unparsed: func(_ string, status int) { told <- status },
	}))
	for _, tt := range []struct {
		raw    string
		status int
		told   bool
	}{
		{"GET /a HTTP/1.1\r\nHost: a\r\n\r\n", 404, false},
		{"GET /a HTTP/1.1\r\nHost: a\r\nX Y: 1\r\n\r\n", 400, true},
		{"GET /a HTTP/3.1\r\nHost: a\r\n\r\n", 505, true},
		{"GET /a HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", 431, true},
		{"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501, true},
	} {
		res, _, _ := talk(t, address, tt.raw)
		if res.StatusCode != tt.status {
			t.Errorf("%.40q: %d, want %d", tt.raw, res.StatusCode, tt.status)
		}
		select {
		case status := <-told:
			if !tt.told || status != tt.status {
				t.Errorf("%.40q: told %d", tt.raw, status)
			}
		default:
			if tt.told {
				t.Errorf("%.40q: not told", tt.raw)
			}
		}
	}
}

// TestReliability_X181 is F12 scaled down: clients that never finish a head are
// gone when its time is over, and a good one is served meanwhile.
func TestReliability_X181(t *testing.T) { onBoth(t, testReliability_X181) }

func testReliability_X181(t *testing.T, on func() front.Listening) {
	const headTime, slow = 300 * time.Millisecond, 300
	f := front.New(front.Config{Listening: on, Log: slog.New(slog.DiscardHandler), Service: exchange.Func(schemes), Limits: front.Limits{HeadTime: headTime}})
	address := serve(t, f)
	for i := range slow {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, part := range []string{"GET /a HTTP/1.1\r\n", "Host: a\r\n", "X-A: b\r\n"}[:i%4%3+1] { // none of them sends the empty line
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
		}
	}
	good, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	ask(t, good)
	start := time.Now()
	until(t, func() bool { ask(t, good); return f.Stats().Open == 1 })
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("gone after %v", took)
	}
}

// TestReliability_X183 is F23 scaled down: clients that leave in the middle of
// their body leave nothing behind.
func TestReliability_X183(t *testing.T) { onBoth(t, testReliability_X183) }

func testReliability_X183(t *testing.T, on func() front.Listening) {
	var now, all atomic.Int64
	f := front.New(front.Config{Listening: on, Log: slog.New(slog.DiscardHandler), Service: exchange.Func(func(x *exchange.Exchange) error {
		now.Add(1)
		all.Add(1)
		defer now.Add(-1)
		_, err := io.Copy(io.Discard, &x.Request.Body)
		if err == nil {
			t.Error("half a body was taken for a whole one")
		}
		return err
	})})
	address := serve(t, f)
	const clients = 500
	for i := range clients {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		framing := "Content-Length: 100\r\n\r\nhalf"
		if i%2 == 0 {
			framing = "Transfer-Encoding: chunked\r\n\r\n64\r\nhalf"
		}
		if _, err := io.WriteString(c, "POST /a HTTP/1.1\r\nHost: a\r\n"+framing); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			_ = c.(*net.TCPConn).SetLinger(0) // reset
		}
		_ = c.Close()
	}
	until(t, func() bool { return now.Load() == 0 && f.Stats().Open == 0 })
	if all.Load() == 0 {
		t.Error("none of them came through")
	}
}

// TestExpectContinue: the client is asked for its body when somebody wants it, and
// else told right away.
func TestExpectContinue(t *testing.T) { onBoth(t, testExpectContinue) }

func testExpectContinue(t *testing.T, on func() front.Listening) {
	address := listen(t, front.Config{Listening: on, Service: exchange.Func(func(x *exchange.Exchange) error {
		x.Response.Status = 413
		if x.Request.Path == "/wanted" {
			body, err := io.ReadAll(&x.Request.Body)
			if err != nil || string(body) != "hello" {
				t.Errorf("got %q, %v", body, err)
			}
			x.Response.Status = 200
		}
		return nil
	})})
	for path, want := range map[string]string{"/wanted": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", "/unwanted": "HTTP/1.1 413 Request Entity Too Large\r\n"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", path)
		got := make([]byte, len(want))
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		first := min(len(want), len("HTTP/1.1 100 Continue\r\n\r\n"))
		if _, err := io.ReadFull(c, got[:first]); err != nil {
			t.Fatalf("%s: %q, %v", path, got[:first], err)
		}
		if path == "/wanted" {
			_, _ = io.WriteString(c, "hello")
		}
		if _, err := io.ReadFull(c, got[first:]); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", path, got, err, want)
		}
	}
}
