//go:build system

package redisrate

import (
	"context"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

// exactKeys is the number of keys of BenchmarkExact.
const exactKeys = 10_000

// The throughput of exact decisions, and the server's CPU time for each, beside those of a
// script that returns at once. Keys, arguments and the calls in flight are the same. All of
// them send one pipeline at a time.
func BenchmarkExact(b *testing.B) {
	server := redistest.Start(b, "redis-server")
	rdb, ctx := client(b, server), context.Background()
	q := gcra.Per(1000, time.Minute, 1000)
	quota, err := redisscript.NewQuota(q)
	testrig.Must(b, err)
	args := quota.Args(nil, &redisscript.Take{N: 1, Least: 1, Most: time.Minute})
	lim, err := redislimit.New(rdb, q, redislimit.Config{Away: redislimit.Deny, Instances: 1, Timeout: 10 * time.Second})
	testrig.Must(b, err)
	defer lim.Close()
	scripts := []struct{ name, source string }{{"bare", "return {0, 1, 0, 1}"}, {"buckets", redisscript.Buckets}}
	for _, calls := range []int{1, 16, 128} {
		b.Run("calls="+strconv.Itoa(calls), func(b *testing.B) {
			for _, s := range scripts {
				sha := rdb.ScriptLoad(ctx, s.source).Val()
				measure(b, rdb, "redis-benchmark/"+s.name, func(b *testing.B) { redisBenchmark(b, server, calls, sha, args) })
			}
			for _, s := range scripts {
				sha := rdb.ScriptLoad(ctx, s.source).Val()
				measure(b, rdb, "go-redis/"+s.name, func(b *testing.B) { pipelines(b, rdb, calls, sha, args) })
			}
			measure(b, rdb, "redislimit", func(b *testing.B) { decisions(b, lim, calls) })
		})
	}
}

// measure reports the server's CPU time for an operation.
func measure(b *testing.B, rdb *redis.Client, name string, f func(b *testing.B)) {
	b.Run(name, func(b *testing.B) {
		rdb.FlushAll(context.Background())
		before := cpu(b, rdb)
		b.ResetTimer()
		f(b)
		b.StopTimer()
		b.ReportMetric((cpu(b, rdb)-before)/float64(b.N)*1e6, "server-µs/op")
	})
}

// redisBenchmark has redis-benchmark run a script over one connection. It can end with an error
// if the last pipeline is not full, so the number of operations is rounded up to full ones.
func redisBenchmark(b *testing.B, server *redistest.Server, calls int, sha string, args []any) {
	host, port, _ := net.SplitHostPort(server.Addr)
	command := []string{
		"-h", host, "-p", port, "-q", "-c", "1", "-P", strconv.Itoa(calls), "-n", strconv.Itoa((b.N + calls - 1) / calls * calls), "-r", strconv.Itoa(exactKeys),
		"EVALSHA", sha, "1", "weir:rate:__rand_int__",
	}
	for _, a := range args {
		command = append(command, asString(a))
	}
	if output, err := exec.Command("redis-benchmark", command...).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, output)
	}
}

// asString returns an argument of a script, all of which are whole numbers.
func asString(arg any) string {
	if n, ok := arg.(int); ok {
		return strconv.Itoa(n)
	}
	return strconv.FormatInt(arg.(int64), 10)
}

// pipelines has the client of redislimit run a script.
func pipelines(b *testing.B, rdb *redis.Client, calls int, sha string, args []any) {
	for n := 0; n < b.N; n += calls {
		pipe := rdb.Pipeline()
		for i := range min(calls, b.N-n) {
			pipe.EvalSha(context.Background(), sha, []string{"weir:rate:" + strconv.Itoa((n+i)%exactKeys)}, args...)
		}
		if _, err := pipe.Exec(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// decisions asks a Limiter, from as many goroutines as there are calls.
func decisions(b *testing.B, lim *redislimit.Limiter, calls int) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range calls {
		group.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if d, err := lim.Take(context.Background(), strconv.Itoa(int(n)%exactKeys), 1); err != nil || d.Step != redislimit.Exact {
					b.Errorf("%+v, %v", d, err)
					return
				}
			}
		})
	}
	group.Wait()
}
