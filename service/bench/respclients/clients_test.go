package respclients

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/respapi"
	"github.com/weir-go/weir/service/internal/server/token"
)

const secret = "the secret of a client"

// serve serves clients of Redis, with tokens or without.
func serve(t *testing.T, tokens bool) (addr string) {
	t.Helper()
	s, err := server.New(server.Config{OwnQuotas: true})
	if err != nil {
		t.Fatal(err)
	}
	var cfg respapi.Config
	if tokens {
		set, err := token.Parse("tokens.yaml", []byte("tokens: [{name: client, token: "+secret+"}]"))
		if err != nil {
			t.Fatal(err)
		}
		var guard token.Guard
		guard.Use(set)
		cfg.Identify = guard.Identify
	}
	api, err := respapi.New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = api.Serve(ln) }()
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

// want are the replies to CL.THROTTLE user123 15 30 60, and to seven times CL.THROTTLE
// piped 4 1 60 in a pipeline.
var want = [][]int64{{0, 16, 15, -1, 2}, {0, 5, 4, -1, 60}, {0, 5, 3, -1, 120}, {0, 5, 2, -1, 180}, {0, 5, 1, -1, 240}, {0, 5, 0, -1, 300},
	{1, 5, 0, 60, 300}, {1, 5, 0, 60, 300}}

func check(t *testing.T, client string, got [][]int64) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%s: %v, want %v", client, got, want)
	}
}

func TestGoRedis(t *testing.T) {
	for _, options := range []redis.Options{{}, {Protocol: 2}, {Password: secret}, {Username: "any", Password: secret, Protocol: 2}} {
		options.Addr = serve(t, options.Password != "")
		r := redis.NewClient(&options)
		defer r.Close()
		first, err := r.Do(t.Context(), "CL.THROTTLE", "user123", 15, 30, 60).Int64Slice()
		if err != nil {
			t.Fatal(err)
		}
		got := [][]int64{first}
		var piped []*redis.Cmd
		if _, err := r.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for range 7 {
				piped = append(piped, p.Do(t.Context(), "CL.THROTTLE", "piped", 4, 1, 60))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, cmd := range piped {
			reply, err := cmd.Int64Slice()
			if err != nil {
				t.Error(err)
			}
			got = append(got, reply)
		}
		check(t, "go-redis", got)
		if err := r.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	}
}

// A client that gives up while it waits gets nothing, and its next command works.
func TestGoRedisGivesUp(t *testing.T) {
	r := redis.NewClient(&redis.Options{Addr: serve(t, false)})
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Do(ctx, "WEIR.LEASE", "jobs", "WAIT", 60).Err(); err == nil {
		t.Error("a lease without a rule for it")
	}
	if err := r.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestRueidis(t *testing.T) {
	for _, options := range []rueidis.ClientOption{{}, {AlwaysRESP2: true, DisableCache: true}, {Password: secret}} {
		options.InitAddress = []string{serve(t, options.Password != "")}
		r, err := rueidis.NewClient(options)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		throttle := func(args ...string) rueidis.Completed { return r.B().Arbitrary("CL.THROTTLE").Args(args...).Build() }
		all := []rueidis.RedisResult{r.Do(t.Context(), throttle("user123", "15", "30", "60"))}
		var piped []rueidis.Completed
		for range 7 {
			piped = append(piped, throttle("piped", "4", "1", "60"))
		}
		all = append(all, r.DoMulti(t.Context(), piped...)...)
		var got [][]int64
		for _, result := range all {
			reply, err := result.AsIntSlice()
			if err != nil {
				t.Error(err)
			}
			got = append(got, reply)
		}
		check(t, "rueidis", got)
	}
}
