package front

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// streamIdle is the longest silence of a stream whose route says nothing.
const streamIdle = 5 * time.Minute

// tunnel joins client and upstream after a 101, until both have done, or one of
// the stream's bounds is reached.
func (f *Front) tunnel(x *exchange.Exchange, rc *http.ResponseController) bool {
	up := x.Response.Tunnel
	down, buffered, err := rc.Hijack()
	if err != nil {
		f.cfg.Log.Error("take the connection over for a tunnel", "request_id", x.Event.RequestID, "err", err)
		x.End(retrylog.Panicked)
		return false
	}
	defer down.Close()
	// Before the client knows of it: whoever drains from then on waits for it.
	p := &pipe{down: down, up: up, start: time.Now(), stopped: make(chan struct{})}
	if !f.tunnels.add(p) {
		p.cut() // the gateway stops
	}
	defer f.tunnels.remove(p)
	head := []byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + x.Request.Upgrade + "\r\n")
	for _, field := range x.Response.Head.Fields() {
		head = append(append(append(append(head, field.Name...), ": "...), field.Value...), "\r\n"...)
	}
	_ = down.SetWriteDeadline(time.Now().Add(f.cfg.Limits.WriteTime))
	if _, err := down.Write(append(head, "\r\n"...)); err != nil {
		x.End(retrylog.ClientAbort)
		return true // the connection is ours, and net/http has no more say in it
	}
	_ = down.SetWriteDeadline(time.Time{})
	x.Event.BytesOut = p.join(x, buffered.Reader)
	if ended, _ := p.ended.Load().(string); ended != "" {
		x.Event.Timeout = ended
	}
	// How a tunnel ends is between its two ends; cutting it was nobody's failure.
	x.Event.BodyComplete = true
	x.End(retrylog.OK)
	return true
}

// pipe is a tunnel at work.
type pipe struct {
	down net.Conn
	up   io.ReadWriteCloser

	last    atomic.Int64 // when a byte came, since the start
	start   time.Time
	once    sync.Once
	stopped chan struct{}
	ended   atomic.Value // string: which bound was reached
}

// stop ends both halves. why is empty where they have ended of their own accord.
func (p *pipe) stop(why string) {
	p.once.Do(func() {
		p.ended.Store(why)
		close(p.stopped)
		_ = p.down.Close() // both ends are given up
		_ = p.up.Close()
	})
}

func (p *pipe) cut() { p.stop("total") }

// watch keeps the bounds of the stream until it is stopped.
func (p *pipe) watch(idle time.Duration, deadline time.Time) {
	if idle <= 0 {
		idle = streamIdle
	}
	var longest <-chan time.Time
	if !deadline.IsZero() {
		longest = time.After(time.Until(deadline))
	}
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		select {
		case <-p.stopped:
			return
		case <-longest:
			p.stop("total")
			return
		case now := <-timer.C:
			left := idle - (now.Sub(p.start) - time.Duration(p.last.Load()))
			if left <= 0 {
				p.stop("idle")
				return
			}
			timer.Reset(left)
		}
	}
}

// join copies both ways and returns when both have ended. An end of the client's
// half is passed on; an end of the upstream's ends the tunnel.
func (p *pipe) join(x *exchange.Exchange, fromClient *bufio.Reader) (sent int64) {
	var all sync.WaitGroup
	deadline, _ := x.Deadline()
	idle := x.Idle
	all.Go(func() { p.watch(idle, deadline) })
	all.Go(func() {
		if _, err := p.copy(p.up, fromClient); err != nil || !closeWrite(p.up) {
			p.stop("")
		}
	})
	sent, _ = p.copy(p.down, p.up)
	p.stop("")
	all.Wait()
	return sent
}

func closeWrite(w any) bool {
	half, ok := w.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

func (p *pipe) copy(to io.Writer, from io.Reader) (n int64, err error) {
	buf := make([]byte, 16<<10)
	for {
		got, err := from.Read(buf)
		if got > 0 {
			p.last.Store(int64(time.Since(p.start)))
			if _, werr := to.Write(buf[:got]); werr != nil {
				return n, werr
			}
			n += int64(got)
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
