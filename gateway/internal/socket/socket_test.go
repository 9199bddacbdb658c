package socket_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"breakwater/gateway/internal/socket"
)

// pair is a connection over loopback, of which one end is read and written quickly.
func pair(t testing.TB) (ours *socket.Conn, nc, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	for _, nc := range []net.Conn{a, b} {
		if err := nc.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	return socket.New(a), a.(*net.TCPConn), b.(*net.TCPConn)
}

// noise are n bytes of which none can be taken for another.
func noise(seed uint64, n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(p)
	return p
}

// Both ways at once, in pieces of any size, more than the kernel has room for: what
// comes is what was sent.
func TestBytesComeAsTheyWereSent(t *testing.T) {
	ours, nc, theirs := pair(t)
	there, back := noise(1, 8<<20), noise(2, 8<<20)
	sent := make(chan error, 2)
	go func() {
		sizes := rand.New(rand.NewPCG(3, 3))
		for p := there; len(p) > 0; {
			n, err := ours.Write(p[:min(len(p), 1+sizes.IntN(1<<20))])
			if p = p[n:]; err != nil {
				sent <- err
				return
			}
		}
		sent <- nc.CloseWrite()
	}()
	got := make(chan [32]byte)
	go func() {
		p, err := io.ReadAll(theirs)
		if err != nil {
			t.Error(err)
		}
		got <- sha256.Sum256(p)
	}()
	go func() {
		_, err := theirs.Write(back)
		sent <- errors.Join(err, theirs.CloseWrite())
	}()
	var came []byte
	sizes := rand.New(rand.NewPCG(4, 4))
	for buf := make([]byte, 1<<20); ; {
		n, err := ours.Read(buf[:1+sizes.IntN(len(buf)-1)])
		came = append(came, buf[:n]...)
		if err == io.EOF {
			break
		}
		if n == 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := errors.Join(<-sent, <-sent); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(came, back) || <-got != sha256.Sum256(there) {
		t.Error("other bytes came than were sent")
	}
}

// Errors are those of the connection itself, by errors.Is.
func TestErrors(t *testing.T) {
	var p [16]byte
	soon := func(nc *net.TCPConn) { _ = nc.SetDeadline(time.Now().Add(10 * time.Millisecond)) }
	fill := func(c *socket.Conn) (n int, err error) {
		for {
			m, err := c.Write(make([]byte, 1<<20))
			if n += m; err != nil {
				return n, err
			}
		}
	}
	reset := func(theirs *net.TCPConn) { _, _ = theirs.SetLinger(0), theirs.Close() }
	for name, tc := range map[string]struct {
		do   func(c *socket.Conn, nc, theirs *net.TCPConn) error
		want error
	}{
		"read, the end": {func(c *socket.Conn, nc, theirs *net.TCPConn) error {
			_ = theirs.Close()
			_, err := c.Read(p[:])
			return err
		}, io.EOF},
		"read, reset": {func(c *socket.Conn, nc, theirs *net.TCPConn) error {
			reset(theirs)
			_, err := c.Read(p[:])
			return err
		}, syscall.ECONNRESET},
		"read, in vain": {func(c *socket.Conn, nc, theirs *net.TCPConn) error {
			soon(nc)
			_, err := c.Read(p[:])
			return err
		}, os.ErrDeadlineExceeded},
		"read, too late": {func(c *socket.Conn, nc, theirs *net.TCPConn) error {
			_ = nc.SetDeadline(time.Unix(1, 0))
			_, err := c.Read(p[:])
			return err
		}, os.ErrDeadlineExceeded},
		"read, closed": {func(c *socket.Conn, nc, theirs *net.TCPConn) error {
			_ = nc.Close()
			_, err := c.Read(p[:])
			return err
		}, net.ErrClosed},
		"read, closed meanwhile": {func(c *socket.Conn, nc, theirs *net.TCPConn) error {
			time.AfterFunc(10*time.Millisecond, func() { _ = nc.Close() })
			_, err := c.Read(p[:])
			return err
		}, net.ErrClosed},
		"write, reset": {func(c *socket.Conn, nc, theirs *net.TCPConn) error {
			reset(theirs)
			_, _ = c.Read(p[:])          // it has come
			_, err := c.Write([]byte{1}) // and no signal with it
			return err
		}, syscall.EPIPE},
		"write, no room": {func(c *socket.Conn, nc, theirs *net.TCPConn) error {
			soon(nc)
			_, err := fill(c)
			return err
		}, os.ErrDeadlineExceeded},
		"write, closed": {func(c *socket.Conn, nc, theirs *net.TCPConn) error {
			_ = nc.Close()
			_, err := c.Write([]byte{1})
			return err
		}, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			c, nc, theirs := pair(t)
			err := tc.do(c, nc, theirs)
			if !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if ne, ok := errors.AsType[net.Error](err); tc.want != io.EOF && (!ok || ne.Timeout() != (tc.want == os.ErrDeadlineExceeded)) {
				t.Errorf("%#v is no such net.Error", err)
			}
		})
	}
}

// What was written before the deadline came is told, and there is none twice.
func TestHowMuchWasWritten(t *testing.T) {
	c, nc, theirs := pair(t)
	_ = nc.SetDeadline(time.Now().Add(20 * time.Millisecond))
	sent, n := noise(3, 64<<20), 0
	for n < len(sent) {
		m, err := c.Write(sent[n:])
		if n += m; errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n == len(sent) {
		t.Fatal("the kernel had room for all of it")
	}
	_ = nc.CloseWrite()
	if came, err := io.ReadAll(theirs); err != nil || !bytes.Equal(came, sent[:n]) {
		t.Errorf("%d bytes came (%v), %d were told", len(came), err, n)
	}
}

// A deadline that passed is put off: it goes on.
func TestGoesOnAfterADeadline(t *testing.T) {
	c, nc, theirs := pair(t)
	var p [4]byte
	_ = nc.SetReadDeadline(time.Unix(1, 0))
	if _, err := c.Read(p[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	_ = nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := theirs.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(p[:]); string(p[:n]) != "more" || err != nil {
		t.Error(n, err)
	}
}

// What is no TCP connection is read and written all the same.
func TestOtherConnections(t *testing.T) {
	a, b := net.Pipe()
	c := socket.New(a)
	go func() {
		_, _ = io.Copy(b, b) // says it again
	}()
	var p [4]byte
	if n, err := c.Write([]byte("echo")); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := io.ReadFull(c, p[:]); string(p[:n]) != "echo" || err != nil {
		t.Error(n, err)
	}
	_ = a.Close()
	if _, err := c.Read(p[:]); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// A buffer is lent when there is something to read, and stays lent only with bytes in it.
func TestTake(t *testing.T) {
	pipe, other := net.Pipe()
	ours, nc, theirs := pair(t)
	for name, tc := range map[string]struct {
		c          *socket.Conn
		our, their net.Conn
	}{"tcp": {ours, nc, theirs}, "pipe": {socket.New(pipe), pipe, other}} {
		t.Run(name, func(t *testing.T) {
			from := socket.NewBuffers(16)
			_ = tc.our.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			if buf, n, err := tc.c.Take(from); buf != nil || n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(buf, n, err)
			}
			_ = tc.our.SetReadDeadline(time.Now().Add(30 * time.Second))
			go func() { _, _ = tc.their.Write([]byte("an answer")) }()
			buf, n, err := tc.c.Take(from)
			if string(buf[:n]) != "an answer" || len(buf) != 16 || err != nil {
				t.Fatal(buf, n, err)
			}
			_ = tc.their.Close()
			if buf, n, err := tc.c.Take(from); buf != nil || n != 0 || err != io.EOF {
				t.Fatal(buf, n, err)
			}
			if string(buf[:n]) != "an answer" {
				t.Error("what was not given back was lent again")
			}
		})
	}
}

// While nothing comes nothing is lent: a thousand that wait use one buffer in turn.
func TestWhoWaitsHasNoBuffer(t *testing.T) {
	const waiting, size = 200, 1 << 20
	from := socket.NewBuffers(size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wait sync.WaitGroup
	ends := make([]net.Conn, 0, waiting)
	for range waiting {
		c, _, theirs := pair(t)
		ends = append(ends, theirs)
		wait.Go(func() {
			if buf, n, err := c.Take(from); n != 0 || err != io.EOF {
				t.Error(len(buf), n, err)
			}
		})
	}
	for _, end := range ends {
		_ = end.Close()
	}
	wait.Wait()
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) / size; used > waiting/4 && !raceEnabled { // a pool forgets at random under it
		t.Errorf("%d buffers for %d that got nothing", used, waiting)
	}
}

func TestBuffersKeepTheirSizeAlone(t *testing.T) {
	from := socket.NewBuffers(16)
	for _, odd := range [][]byte{nil, make([]byte, 8), make([]byte, 16, 32), make([]byte, 32)} {
		from.Back(odd)
		if got := from.Lend(); len(got) != 16 || cap(got) != 16 {
			t.Errorf("%d of %d bytes were given back, %d of %d are lent", len(odd), cap(odd), len(got), cap(got))
		}
	}
	buf := from.Lend()
	if n := testing.AllocsPerRun(100, func() { from.Back(buf); buf = from.Lend() }); n > 0 && !raceEnabled {
		t.Errorf("%v allocations to lend one", n)
	}
}

func TestReadAndWriteAllocateNothing(t *testing.T) {
	c, _, theirs := pair(t)
	var ours, other [64]byte
	if n := testing.AllocsPerRun(100, func() {
		_, _ = c.Write(ours[:])
		_, _ = io.ReadFull(theirs, other[:])
		_, _ = theirs.Write(other[:])
		_, _ = io.ReadFull(c, ours[:])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Sixty-four connections at once: what the scheduler is not told of.
func BenchmarkThereAndBack(b *testing.B) {
	for _, name := range []string{"socket", "net"} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				c, nc, theirs := pair(b)
				var rw io.ReadWriter = c
				if name == "net" {
					rw = nc
				}
				go func() {
					_, _ = io.Copy(struct{ io.Writer }{theirs}, struct{ io.Reader }{theirs})
				}()
				var p [512]byte
				for pb.Next() {
					if _, err := rw.Write(p[:]); err != nil {
						b.Error(err)
						return
					}
					if _, err := io.ReadFull(rw, p[:]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
