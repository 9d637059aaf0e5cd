//go:build system

package redislimit_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
)

// A version is a version of the script of buckets.
type version struct {
	name    string
	text    string
	settles bool // it knows settlements
}

// versions returns the present script and those of releases.
func versions(t *testing.T) []version {
	all := []version{{"present", redisscript.Buckets, true}}
	for _, v := range []version{{name: "f6d7ae14"}, {name: "3550d8c9", settles: true}} {
		text, err := os.ReadFile("../internal/redisscript/testdata/buckets-" + v.name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		v.text = string(text)
		all = append(all, v)
	}
	return all
}

func (v *version) run(t *testing.T, rdb redis.Scripter, key string, q *redisscript.Quota, take redisscript.Take) redisscript.Reply {
	t.Helper()
	take.Settled = take.Settled && v.settles
	numbers, err := redis.NewScript(v.text).Run(context.Background(), rdb, []string{key}, q.Args(nil, &take)...).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	r, err := redisscript.ReadReply(numbers, q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The scripts of this version and of releases count in the same keys: none takes what another wrote
// for no state. The present one also settles what another has changed since.
func TestReleasedScriptsShareKeys(t *testing.T) {
	all := versions(t)
	for _, engine := range redistest.Engines {
		rdb := client(t, redistest.Start(t, engine))
		quotas := map[string]redisscript.Quota{
			"tokens": tokensOf(t, gcra.Per(7, time.Hour, 100)),
			"fixed":  windowOf(t, redisscript.FixedWindow, 100, time.Hour),
			"clock":  windowOf(t, redisscript.ClockWindow, 100, 24*365*time.Hour),
			"slides": windowOf(t, redisscript.SlidingWindow, 100, 24*365*time.Hour),
		}
		for kind, q := range quotas {
			for _, writer := range all {
				for _, reader := range all {
					if writer.name != "present" && reader.name != "present" {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%s,%s", engine, kind, writer.name, reader.name), func(t *testing.T) {
						key := t.Name()
						first := writer.run(t, rdb, key, &q, redisscript.Take{N: 60, Least: 60, Settled: true})
						look := reader.run(t, rdb, key, &q, redisscript.Take{})
						if !first.Granted || look.Used(0, &q) != 60 {
							t.Errorf("%d used, want the 60 that %s took", look.Used(0, &q), writer.name)
						}
						if r := reader.run(t, rdb, key, &q, redisscript.Take{N: 30, Least: 30, Settled: true}); !r.Granted || r.Used(0, &q) != 90 {
							t.Errorf("%v, %d used: want 90", r.Granted, r.Used(0, &q))
						}
						used := 90
						if kind == "clock" { // it counts what is denied
							used = 120
						}
						if r := writer.run(t, rdb, key, &q, redisscript.Take{N: 30, Least: 30, Settled: true}); r.Granted || r.Used(0, &q) != used {
							t.Errorf("%v, %d used: want a denial, and %d", r.Granted, r.Used(0, &q), used)
						}
						present := &all[0]
						r := present.run(t, rdb, key, &q, redisscript.Take{N: -20, Taken: first.Time, Remain: 40})
						if got := r.Used(0, &q); got < used-20 || got > used {
							t.Errorf("%d used after 20 of 60 are given back, want %d to %d", got, used-20, used)
						}
					})
				}
			}
		}
	}
}
