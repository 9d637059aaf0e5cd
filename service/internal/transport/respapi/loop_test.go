//go:build linux

package respapi_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/eventloop"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// looped returns a listener with event loops.
func looped(ln net.Listener) net.Listener {
	l, err := eventloop.Listen(ln)
	if err != nil {
		panic(err)
	}
	return l
}

// A stream over TCP gets the same replies from an event loop as from goroutines, however it is
// cut.
func TestPathsOverTCP(t *testing.T) {
	_, toGoroutine := overTCP(t, respapi.Config{Blocking: true}, looped)
	_, toLoop := overTCP(t, respapi.Config{}, looped)
	// Replies to CL.THROTTLE depend on the time, and those before QUIT can be lost if more follows.
	others := strings.NewReplacer("CL.THROTTLE", "CL.ELTTORHT", "QUIT", "TIUQ")
	const last = "$3\r\nend\r\n"
	for seed := range uint64(60) {
		var replies [2]string
		for path, dial := range []func() *peer{toGoroutine, toLoop} {
			random := rand.New(rand.NewPCG(seed, 1))
			p := dial()
			go func() {
				stream := others.Replace(string(script(random))) + "\r\nECHO end\r\n"
				for _, piece := range cut(random, []byte(stream)) {
					if _, err := p.Write(piece); err != nil {
						return
					}
					runtime.Gosched()
				}
			}()
			for b := make([]byte, 1<<10); !strings.HasSuffix(replies[path], last); {
				n, err := p.Read(b)
				if replies[path] += string(b[:n]); err != nil {
					break
				}
				if strings.Contains(replies[path], "Protocol error") { // so that the server need not wait
					_ = p.Conn.(*net.TCPConn).CloseWrite()
				}
			}
		}
		if replies[0] != replies[1] {
			t.Errorf("seed %d: the event loop replies\n%q, not\n%q", seed, replies[1], replies[0])
		}
	}
}

// Idle connections have no goroutine, also after they have had one.
func TestIdleOverTCP(t *testing.T) {
	const clients = 50
	_, dial := overTCP(t, respapi.Config{}, looped)
	var peers []*peer
	for range clients {
		p := dial()
		p.wants("PING", "PONG")
		peers = append(peers, p)
	}
	few := func() bool { return serving() < clients/2 }
	testrig.Eventually(t, "idle connections have no goroutines", few)
	for _, p := range peers {
		_, _ = io.WriteString(p, "*1\r\n$4\r\nPI")
	}
	for _, p := range peers {
		_, _ = io.WriteString(p, "NG\r\n")
		for range 30 {
			if got := p.read(); got != "PONG" {
				t.Error(got)
			}
			p.send(encode("PING"))
		}
	}
	testrig.Eventually(t, "connections that have sent a part of a command have no goroutines", few)
}

// If decisions may block, each connection has a goroutine.
func TestBlockingOverTCP(t *testing.T) {
	const clients = 20
	_, dial := overTCP(t, respapi.Config{Blocking: true}, looped)
	testrig.Eventually(t, "connections of other tests have no goroutines", func() bool { return serving() == 0 })
	for range clients {
		dial().wants("PING", "PONG")
	}
	if n := serving(); n != clients {
		t.Errorf("%d goroutines for %d connections", n, clients)
	}
}

// serving returns the number of goroutines that serve connections.
func serving() int {
	stacks := make([]byte, 1<<22)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "respapi.(*conn).serve(")
}

// Connections of an event loop can wait, send a part of a command, and not take their replies.
// The others go on meanwhile.
func TestBlockOverTCP(t *testing.T) {
	s, dial := overTCP(t, respapi.Config{ClientTimeout: time.Second}, looped)
	n := 2 * runtime.GOMAXPROCS(0) // some for each loop
	var late []*peer
	for range n {
		part, waits, stalled := dial(), dial(), dial()
		_, _ = io.WriteString(part, "*1\r\n$4\r\nPI")
		waits.send(encode("WEIR.WAIT", "same") + encode("WEIR.WAIT", "same"))
		stalled.send(strings.Repeat(stuffed("ECHO", 4<<10), 10_000))
		late = append(late, part, waits, stalled)
	}
	var all sync.WaitGroup
	for range 2 * n {
		p := dial()
		all.Go(func() {
			for i := range 100 {
				p.wants(fmt.Sprint("ECHO ", i), fmt.Sprint(i))
			}
		})
	}
	all.Wait()
	testrig.Eventually(t, "clients that do not read are cut off", func() bool { return s.Stats().Ended["slow_reader"] == uint64(n) })
	for i := 0; i < len(late); i += 3 {
		if got := late[i].read(); got != errorReply("ERR the command was not received in time") {
			t.Error(got)
		}
		late[i+1].Close() // TestDisconnect
		if n, err := io.Copy(io.Discard, late[i+2]); n >= 10_000*4<<10 {
			t.Errorf("a client that has not read got all of %d bytes, %v", n, err)
		}
	}
	if st := s.Stats(); st.Ended["slow_command"] != uint64(n) {
		t.Errorf("%+v", st)
	}
}

// An idle connection of an event loop makes room for another.
func TestLimitOverTCP(t *testing.T) {
	var limit *connlimit.Listener
	idle := func(nc net.Conn, idle bool) { limit.SetIdle(nc, idle) }
	_, dial := overTCP(t, respapi.Config{SetIdle: idle}, func(ln net.Listener) net.Listener {
		limit = connlimit.New(looped(ln), 4) // an address has at most half
		return limit
	})
	first, second := dial(), dial()
	first.wants("PING", "PONG")
	second.wants("PING", "PONG")
	third := dial()
	third.wants("PING", "PONG")
	if a, b := first.do("PING"), second.do("PING"); (a == "PONG") == (b == "PONG") {
		t.Errorf("not one of both has been closed: %v, %v", a, b)
	}
	testrig.Eventually(t, "the connection that was closed has ended", func() bool {
		return strings.Contains(fmt.Sprint(third.do("INFO")), "connected_clients:2\r\n")
	})
	if n := limit.Count(); n.Open != 2 || n.Shed != 1 {
		t.Errorf("%+v", n)
	}
}

// Shutdown ends the idle connections of an event loop, and waits for commands.
func TestShutdownOverTCP(t *testing.T) {
	s, dial := overTCP(t, respapi.Config{}, looped)
	var idle []*peer
	for range 20 {
		p := dial()
		p.wants("PING", "PONG")
		idle = append(idle, p)
	}
	waits := dial()
	waits.do("WEIR.TAKE a")
	waits.send(encode("WEIR.WAIT", "a"))
	testrig.Eventually(t, "the command waits", func() bool { return s.server.Waiting() == 1 })
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	for _, p := range idle {
		if got := fmt.Sprint(p.read()); got != "EOF" {
			t.Error(got)
		}
	}
	s.server.Close(true)
	if got := waits.read(); got != errorReply("UNAVAILABLE the server is closing") {
		t.Error(got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
