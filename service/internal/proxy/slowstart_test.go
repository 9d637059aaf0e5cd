package proxy_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/proxy"
)

// crowd sends n requests at once, and returns how many were answered.
func (p *ruled) crowd(n int, path string) (answered int) {
	p.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if p.send(path).Code == 200 {
				mu.Lock()
				answered++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answered
}

// With a slow start, a limit begins at a tenth, grows while requests succeed, and begins low
// again after an idle time. A reload does not make it begin again.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rules = "classes: [{name: x, routes: /x, limit: 40, slow_start: 1m}, {name: y, routes: /y, limit: 40, slow_start: 0s}]"
		p := withRules(t, rules, proxy.Config{SlowStart: time.Hour, Limit: proxy.FixedLimit(20), Transport: answers(200, s)})
		if x, y, other := p.crowd(40, "/x"), p.crowd(40, "/y"), p.crowd(20, "/"); x != 4 || y != 40 || other != 2 {
			t.Errorf("%d, %d, %d: want a tenth of 40, all 40, and a tenth of 20", x, y, other)
		}
		grow := func(n int) {
			for range 50 {
				p.crowd(n, "/x")
			}
		}
		grow(40)
		if n := p.crowd(40, "/x"); n != 40 {
			t.Errorf("%d: want all", n)
		}
		p.reload(strings.Replace(rules, "limit: 40", "limit: 80", 1))
		if now := p.class("x").Limit; now.LimitNow != 40 || time.Duration(now.SlowStart) != time.Minute {
			t.Errorf("%+v: want that it goes on from 40", now)
		}
		grow(80)
		if n := p.crowd(80, "/x"); n != 80 {
			t.Errorf("%d: want all 80", n)
		}
		p.reload(strings.Replace(rules, "limit: 40", "limit: 80", 1) + "\ntenants: {by: address}")
		if n := p.crowd(80, "/x"); n != 80 {
			t.Errorf("%d: want that the limiter for tenants goes on from 80", n)
		}
		if err := p.Set(proxy.Change{Class: new("y"), Limit: new(proxy.FixedLimit(90))}); err != nil || p.crowd(100, "/y") != 90 {
			t.Errorf("%v: want the limit of the operator at once", err)
		}
		if err := p.Set(proxy.Change{Class: new("x"), Limit: new(proxy.FixedLimit(100))}); err != nil || p.crowd(100, "/x") != 100 {
			t.Errorf("%v: want the limit of the operator at once", err)
		}
		time.Sleep(5 * time.Minute)
		if n := p.crowd(80, "/x"); n != 10 {
			t.Errorf("%d after an idle time: want a tenth", n)
		}
		if text := fetch(p.Admin(), "/-/status").Body.String(); !strings.Contains(text, `"slow_start":"1m0s"`) {
			t.Errorf("%s: want the idle time", text)
		}
	})
}
