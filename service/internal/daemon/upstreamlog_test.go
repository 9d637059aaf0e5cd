package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/wire"
)

// An upstream that is away and back many times a second does not fill the log, which ends with how it is.
func TestAwayLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		began := time.Now()
		a := &awayLog{log: func(err error) { told = append(told, fmt.Sprint(time.Since(began), " ", err)) }}
		gone := errors.New("gone")
		for range 10 {
			a.note(gone)
			time.Sleep(100 * time.Millisecond)
			a.note(nil)
			time.Sleep(100 * time.Millisecond)
		}
		a.note(gone)
		time.Sleep(5 * time.Second)
		a.note(nil)
		want := "0s gone, 100ms <nil>, 1s gone, 1.1s <nil>, 2s gone, 7s <nil>"
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		time.Sleep(time.Second)
		a.note(gone)
		a.note(nil)
		a.note(gone) // is logged a second after the first
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := strings.Join(told[6:], ", "); got != "8s gone, 8s <nil>, 9s gone" {
			t.Error(got)
		}
	})
}

// A version that differs from the upstream's is logged once.
func TestLogOtherVersion(t *testing.T) {
	log, told := textLog()
	d := &Daemon{log: log, cfg: Config{Version: "v1"}}
	state := d.logUpstream(slog.String("upstream", "http://owner"), func() *config.Rules { return &config.Rules{} })
	for _, version := range []string{"v1", "v2", "v2", "v1", "v3"} {
		state(peer.State{Up: true, Peer: wire.Info{Version: version}})
	}
	const line = `level=INFO msg="the upstream has another version" upstream=http://owner version=%s own=v1` + "\n"
	if got, want := told(), fmt.Sprintf(line+line, "v2", "v3"); got != want {
		t.Errorf("%s: want %s", got, want)
	}
}

// Rules that differ from the upstream's are logged once for each pair.
func TestLogOtherRules(t *testing.T) {
	var log bytes.Buffer
	d := &Daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	own := &config.Rules{Hash: "own"}
	told := d.logUpstream(slog.String("upstream", "http://owner"), func() *config.Rules { return own })
	for _, step := range []struct {
		own  string
		s    peer.State
		want int // logs so far
	}{
		{"own", peer.State{}, 0},
		{"own", peer.State{Up: true, Peer: wire.Info{Rules: "own"}}, 0},
		{"own", peer.State{Up: true, Peer: wire.Info{Rules: "other"}}, 1},
		{"own", peer.State{Err: errors.New("cut"), Peer: wire.Info{Rules: "other"}}, 1},
		{"own", peer.State{Up: true, Peer: wire.Info{Rules: "other"}}, 1},
		{"next", peer.State{Up: true, Peer: wire.Info{Rules: "other"}}, 2},
		{"next", peer.State{Up: true, Peer: wire.Info{Rules: "next"}}, 2},
		{"next", peer.State{Up: true, Peer: wire.Info{Rules: "other"}}, 3},
		{"", peer.State{Up: true, Peer: wire.Info{Rules: "other"}}, 3},
		{"next", peer.State{Up: true}, 3},
	} {
		own = &config.Rules{Hash: step.own}
		told(step.s)
		if n := strings.Count(log.String(), "the upstream has other rules"); n != step.want {
			t.Errorf("after %+v: logged %d times, want %d:\n%s", step, n, step.want, log.String())
		}
	}
	if !strings.Contains(log.String(), "upstream=http://owner rules=own upstream_rules=other") {
		t.Error(log.String())
	}
}
