package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// An attack runs against an address until ctx ends or, with an amount, until it is done.
// It returns what it did.
type attack struct {
	name   string
	amount bool
	flags  []string // of weir serve
	run    func(ctx context.Context, addr string) string
}

const (
	// manyConns are the connections of an attack that needs many.
	manyConns = 10_000
	// manyAddrs are the addresses that many connections come from: one address may not have all.
	manyAddrs = 16
	// slowReaders are the connections that ask for large answers and read nothing.
	slowReaders = 1000
	// freshKeys is the amount of an attack with keys that come once.
	freshKeys = 5_000_000
)

// many has room for twice manyConns, because half of the connections may wait.
var many = []string{"--max-connections", fmt.Sprint(2 * manyConns)}

var attacks = []attack{
	{"none", false, nil, func(ctx context.Context, _ string) string { <-ctx.Done(); return "nothing" }},
	{"slow headers", false, nil, hold{first: "POST /rate/a HTTP/1.1\r\nHost: a\r\nX: ", then: "a"}.run},
	{"slow bodies", false, nil, hold{first: "POST /rate HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n[", then: " "}.run},
	{"slow readers", false, nil, readNothing},
	{"10,000 idle", false, many, hold{first: "POST /rate/a HTTP/1.1\r\nHost: a\r\n\r\n", idle: true, addrs: manyAddrs}.run},
	{"10,000 idle, HTTP/2", false, many, hold{first: beginHTTP2 + firstStream("/rate/a"), http2: true, idle: true, addrs: manyAddrs}.run},
	{"10,000 waiting", false, many, hold{first: "POST /rate/late:%d?canWait=true HTTP/1.1\r\nHost: a\r\n\r\n", addrs: manyAddrs}.run},
	{"10,000 waiting, HTTP/2", false, many, hold{first: beginHTTP2 + firstStream("/rate/late:1?canWait=true"), http2: true, addrs: manyAddrs}.run},
	{"slow preface", false, nil, hold{first: http2.ClientPreface[:10]}.run},
	{"slow readers, HTTP/2", false, nil, readNoDecisions},
	{"rapid reset", false, nil, overFrames(20, "requests", resetStreams)},
	{"rapid reset of decisions", false, nil, overFrames(20, "requests", resetDecisions)},
	{"HPACK bomb", false, nil, overFrames(20, "requests", bomb)},
	{"CONTINUATION", false, nil, overFrames(20, "frames", continueHeaders)},
	{"settings", false, nil, overFrames(20, "frames", sendSettings)},
	{"pings", false, nil, overFrames(20, "frames", sendPings)},
	{"window updates", false, nil, overFrames(20, "frames", updateWindows)},
	{"DATA without data", false, nil, overFrames(20, "frames", sendNothing)},
	{"5,000,000 fresh keys", true, nil, batches{key: func(i int64) string { return fmt.Sprint("k", i) }, most: freshKeys}.run},
	{"longest keys", false, nil, batches{key: func(i int64) string { return fmt.Sprint(strings.Repeat("ab", 500), i) }}.run},
	{"1,000 half bodies x 100", false, nil, overFrames(100, "requests", halfBodies)},
	{"1,000 unread x 100", false, nil, overFrames(100, "requests", unreadAnswers)},
	{"1,000 unread decisions x 100", false, nil, overFrames(100, "requests", unreadDecisions)},
}

// dial connects from 127.0.0.2, or from a later address.
func dial(ctx context.Context, addr string, later int) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+later))}, Timeout: time.Second}
	return d.DialContext(ctx, "tcp", addr)
}

// keepOpen keeps n connections from addrs addresses open until ctx ends: it opens another
// for each that use returns for, after a second. use calls opened when the server has taken
// its connection. The answer is how many were so at a time, and in all.
func keepOpen(ctx context.Context, addr string, n, addrs int, use func(c net.Conn, i int, opened func())) string {
	var mu sync.Mutex // guards open, most and all
	open, most, all := 0, 0, 0
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		open += n
		most, all = max(most, open), all+max(n, 0)
	}
	dialing := make(chan struct{}, 50)
	one := func(i int) {
		dialing <- struct{}{}
		c, err := dial(ctx, addr, i%addrs)
		<-dialing
		if err != nil {
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		taken := 0
		use(c, i, func() {
			taken = 1
			count(1)
		})
		count(-taken)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				one(i)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	wg.Wait()
	return fmt.Sprintf("%d connections at a time, %d in all", most, all)
}

// A hold opens connections, sends the beginning of a request, and then a text each second.
type hold struct {
	first string
	then  string
	http2 bool // of the answer
	idle  bool // the request is whole, and its answer is awaited
	addrs int  // to connect from; 0: one
}

func (h hold) run(ctx context.Context, addr string) string {
	return keepOpen(ctx, addr, manyConns, max(h.addrs, 1), func(c net.Conn, i int, opened func()) {
		first := h.first
		if strings.Contains(first, "%d") {
			first = fmt.Sprintf(first, i%100)
		}
		if _, err := io.WriteString(c, first); err != nil {
			return
		}
		answer := make([]byte, 1<<10)
		if h.idle && h.http2 {
			if answered(c) {
				opened()
				_, _ = io.Copy(io.Discard, c) // until the server closes the connection
			}
			return
		}
		if h.idle {
			if n, err := c.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200") &&
				!strings.HasPrefix(string(answer[:n]), "HTTP/1.1 429") {
				return
			}
			opened()
			_, _ = c.Read(answer) // until the server closes the connection
			return
		}
		for second := 0; ; second++ {
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := c.Read(answer); !errors.Is(err, os.ErrDeadlineExceeded) && (err != nil || !h.http2) {
				return // answered or closed
			}
			if second == 0 {
				opened()
			}
			if _, err := io.WriteString(c, h.then); err != nil {
				return
			}
		}
	})
}

// readNothing asks for large answers over many connections, and reads none.
func readNothing(ctx context.Context, addr string) string {
	body := "[" + strings.Repeat(`{"key":"a"},`, 999) + `{"key":"a"}]`
	request := fmt.Sprintf("POST /rate HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return keepOpen(ctx, addr, slowReaders, 1, func(c net.Conn, _ int, opened func()) {
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		opened()
		for {
			if _, err := io.WriteString(c, request); err != nil {
				return
			}
		}
	})
}

// A batches sends batches of new keys over 8 connections, as fast as the server takes
// them.
type batches struct {
	key  func(int64) string
	most int64 // keys; 0: until ctx ends
}

const batchSize = 1000

func (b batches) run(ctx context.Context, addr string) string {
	var begun, done atomic.Int64
	next := func() (batch string, ok bool) {
		last := begun.Add(batchSize)
		if ctx.Err() != nil || b.most > 0 && last > b.most {
			return "", false
		}
		var text strings.Builder
		for i := range int64(batchSize) {
			text.WriteByte("[,"[min(i, 1)])
			fmt.Fprintf(&text, `{"key":%q}`, b.key(last-i))
		}
		text.WriteByte(']')
		return text.String(), true
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			batch, ok := next()
			for ok {
				c, err := dial(ctx, addr, 0)
				if err != nil {
					ok = ctx.Err() == nil
					continue
				}
				stop := context.AfterFunc(ctx, func() { c.Close() })
				for r := bufio.NewReader(c); ok && sendBatch(c, r, batch) == nil; batch, ok = next() {
					done.Add(batchSize)
				}
				stop()
				c.Close()
				ok = ok && ctx.Err() == nil
			}
		})
	}
	wg.Wait()
	return fmt.Sprint(done.Load(), " keys")
}

// sendBatch sends a batch, and reads its answer. An answer other than 200 is an error.
func sendBatch(c net.Conn, r *bufio.Reader, batch string) error {
	if _, err := fmt.Fprintf(c, "POST /rate HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(batch), batch); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
