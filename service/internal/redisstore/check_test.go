//go:build system

package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/redisstore"
)

// checked returns the report about a store as lines of level, what, value and advice.
func checked(t *testing.T, url string, timeout time.Duration) (*redisstore.Report, string) {
	t.Helper()
	c, err := redisstore.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	r := c.Check(ctx, "weir:")
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s: %s: %s\n", f.Level, f.What, f.Value, f.Advice)
		if (f.Level == redisstore.OK) != (f.Advice == "") {
			t.Errorf("%+v: want an advice unless it is ok", f)
		}
	}
	return r, b.String()
}

// wants fails the test unless a report is fit or not, and has these texts.
func wants(t *testing.T, url string, fit bool, texts ...string) {
	t.Helper()
	r, lines := checked(t, url, 10*time.Second)
	if r.Fit != fit {
		t.Errorf("%s: fit is %v:\n%s", url, r.Fit, lines)
	}
	for _, text := range texts {
		if !strings.Contains(lines, text) {
			t.Errorf("%s: no %q in\n%s", url, text, lines)
		}
	}
}

// permitted lists the permissions of weir serve, as docs/redis.md does.
const permitted = "+eval +evalsha +time +get +set +psetex +del +zadd +zrem +zscore +zrange +zrank +zcount +zrangebyscore +zremrangebyscore +pttl +pexpire"

func TestCheck(t *testing.T) {
	for engine, name := range map[string]string{"redis-server": "Redis ", "valkey-server": "Valkey "} {
		t.Run(engine, func(t *testing.T) {
			s := redistest.Start(t, engine)
			user := func(name, keys, permissions string) string {
				s.Do(append([]string{"ACL", "SETUSER", name, "reset", "on", ">secret", keys}, strings.Fields(permissions)...)...)
				return "redis://" + name + ":secret@" + s.Addr
			}
			url := "redis://" + s.Addr
			wants(t, url, true, "ok reachable: answers in ", "ok version: "+name, "ok role: master", "ok maxmemory-policy: noeviction, maxmemory has no bound", "ok scripts: run", "ok clock: ")
			wants(t, user("least", "~weir:*", permitted), true, "warning version, role, memory: unknown", "ok permissions", "ok scripts: run")
			for word := range strings.FieldsSeq(permitted) {
				want := "the ACL user needs " + word
				if word == "+eval" || word == "+evalsha" {
					want = "the ACL user needs +eval +evalsha"
				}
				wants(t, user("less", "~weir:*", strings.ReplaceAll(permitted+" ", word+" ", "")), false, want)
			}
			wants(t, user("others", "~others:*", "+@all"), false, "the ACL user needs the keys ~weir:*")
			wants(t, "redis://least:wrong@"+s.Addr, false, "error reachable: WRONGPASS", "$WEIR_STORE")
			wants(t, url+"?cluster=true", false, "remove cluster=true from the URL")

			s.Do("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
			wants(t, url, true, "ok maxmemory-policy: volatile-ttl")
			s.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
			wants(t, url, true, "warning maxmemory-policy: allkeys-lru")
			s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			s.Do("CONFIG", "SET", "maxmemory", "1")
			wants(t, url, false, "error writes: OOM", "raise its maxmemory")
			if keys := s.Do("DBSIZE"); keys != "0" {
				t.Errorf("%s keys: the check has stored something", keys)
			}
			s.Kill()
			wants(t, url, false, "error reachable: ", "start the server")
		})
	}
}

// The check ends in time if the server says nothing.
func TestCheckSilence(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t, "redis-server"))
	p.Silence(true)
	if r, lines := checked(t, "redis://"+p.Addr, 200*time.Millisecond); r.Fit || !strings.Contains(lines, "no answer in time") {
		t.Error(lines)
	}
}

func TestCheckReplica(t *testing.T) {
	for _, engine := range redistest.Engines {
		t.Run(engine, func(t *testing.T) {
			p := redistest.StartPair(t, engine)
			wants(t, "redis://"+p.Replica.Addr, false, "error role: slave: a replica cannot count: use its master, "+p.Master.Addr)
			wants(t, "redis://"+p.Sentinel.Addr+"?master_name="+redistest.MasterName, true, "ok role: master", "ok scripts: run")
			wants(t, "redis://"+p.Sentinel.Addr+"?master_name=other", false, "compare master_name with SENTINEL MASTERS")
		})
	}
}

func TestCheckCluster(t *testing.T) {
	for _, engine := range redistest.Engines {
		t.Run(engine, func(t *testing.T) {
			c := redistest.StartCluster(t, engine, 3)
			first := "redis://" + c.Masters[0].Addr
			wants(t, first+"?cluster=true", true, "ok cluster: state ok, 16384 of 16384 slots", "ok scripts: run")
			r, lines := checked(t, first+"?cluster=true", 10*time.Second)
			masters := map[string]bool{}
			for _, f := range r.Findings {
				masters[f.Server] = true
			}
			if len(masters) != 1+len(c.Masters) {
				t.Errorf("findings of %v: want each master\n%s", masters, lines)
			}
			for _, s := range c.Servers() {
				s.Do(append([]string{"ACL", "SETUSER", "least", "on", ">secret", "~weir:*", "+cluster|slots"}, strings.Fields(permitted)...)...)
			}
			wants(t, "redis://least:secret@"+c.Masters[0].Addr+"?cluster=true", true, "warning cluster: unknown", "ok permissions", "ok scripts: run")
			wants(t, first, false, "error role: master of a Cluster", "add ?cluster=true")
			for _, s := range c.Masters {
				s.Do("CLUSTER", "DELSLOTS", "7")
			}
			wants(t, first+"?cluster=true", false, "error cluster: state ", " 16383 of 16384 slots", "redis-cli --cluster fix")
		})
	}
}
