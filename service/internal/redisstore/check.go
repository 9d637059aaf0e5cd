package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Level says what a Finding means for weir serve.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // it works, but the limits can be exceeded
	Failure Level = "error"   // it does not work
)

// A Finding is one property of a store.
type Finding struct {
	Server string `json:"server,omitempty"` // the address of a master of a Cluster
	What   string `json:"what"`
	Level  Level  `json:"level"`
	Value  string `json:"value"`            // as it is
	Advice string `json:"advice,omitempty"` // what to do, unless it is OK
}

// A Report says whether a store is fit for weir serve.
type Report struct {
	Address  string    `json:"address"` // the URL without a password
	Fit      bool      `json:"fit"`     // no Finding is a Failure
	Findings []Finding `json:"findings"`
}

// Check finds out whether the store is fit for keys with a prefix. It stores nothing. If ctx ends
// meanwhile, the Report has what was found until then.
func (c *Client) Check(ctx context.Context, prefix string) *Report {
	k := &check{client: c, prefix: prefix}
	r := &Report{Address: c.Address, Findings: k.run(ctx)}
	r.Fit = !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Failure })
	return r
}

// A check is one run of Client.Check.
type check struct {
	client *Client
	prefix string

	mu     sync.Mutex // guards others
	others []Finding  // of masters of a Cluster
}

func (k *check) run(ctx context.Context) []Finding {
	first, ok := k.reach(ctx)
	if !ok {
		return first
	}
	if k.client.cluster == nil {
		return append(append(first, k.server(ctx, k.client)...), k.scripts(ctx))
	}
	first = append(first, k.slots(ctx))
	err := k.client.cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		found := k.server(ctx, master)
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, f := range found {
			f.Server = master.Options().Addr
			k.others = append(k.others, f)
		}
		return nil
	})
	if err != nil {
		first = append(first, broken("masters", err))
	}
	slices.SortStableFunc(k.others, func(a, b Finding) int { return strings.Compare(a.Server, b.Server) })
	return append(append(first, k.others...), k.scripts(ctx))
}

// reach reports whether the store answers, and how fast.
func (k *check) reach(ctx context.Context) ([]Finding, bool) {
	if err := k.client.Ping(ctx).Err(); err != nil && !refused(err) { // it connects
		return []Finding{broken("reachable", err)}, false
	}
	began := time.Now()
	_ = k.client.Ping(ctx).Err() // it takes as long if it is not permitted
	return []Finding{{What: "reachable", Level: OK, Value: "answers in " + time.Since(began).Round(time.Microsecond).String()}}, true
}

// slots reports whether a Cluster serves all slots.
func (k *check) slots(ctx context.Context) Finding {
	text, err := k.client.ClusterInfo(ctx).Result()
	if err != nil {
		return unknown("cluster", err, "+cluster|info")
	}
	info := fields(text)
	f := Finding{What: "cluster", Level: OK, Value: fmt.Sprintf("state %s, %s of 16384 slots", info["cluster_state"], info["cluster_slots_ok"])}
	if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != "16384" {
		f.Level, f.Advice = Failure, "keys of the other slots have no master: see CLUSTER NODES, and give every slot a master (redis-cli --cluster fix)"
	}
	return f
}

// server checks one server, by its INFO, its clock, and what the user may do there.
func (k *check) server(ctx context.Context, c redis.Cmdable) (found []Finding) {
	text, err := c.Info(ctx).Result()
	if err != nil {
		found = append(found, unknown("version, role, memory", err, "+info"))
	} else {
		info := fields(text)
		found = append(found, version(info), k.role(info), policy(info), persistence(info))
	}
	return append(found, k.permissions(ctx, c), clock(ctx, c))
}

func version(info map[string]string) Finding {
	if v := info["valkey_version"]; v != "" {
		return Finding{What: "version", Level: OK, Value: "Valkey " + v}
	}
	v := info["redis_version"]
	f := Finding{What: "version", Level: OK, Value: "Redis " + v}
	major, _, _ := strings.Cut(v, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 5 {
		f.Level, f.Advice = Failure, "use Redis 5 or newer, or Valkey: older servers cannot replicate scripts that read the clock"
	}
	return f
}

func (k *check) role(info map[string]string) Finding {
	f := Finding{What: "role", Level: OK, Value: info["role"]}
	switch {
	case info["role"] != "master":
		f.Level, f.Advice = Failure, fmt.Sprintf("a replica cannot count: use its master, %s:%s, or Sentinels (?master_name=NAME)", info["master_host"], info["master_port"])
	case info["cluster_enabled"] == "1" && k.client.cluster == nil:
		f.Value, f.Level, f.Advice = "master of a Cluster", Failure, "it has a part of the keys: add ?cluster=true to the URL"
	}
	return f
}

func policy(info map[string]string) Finding {
	f := Finding{What: "maxmemory-policy", Level: OK, Value: info["maxmemory_policy"]}
	switch f.Value {
	case "noeviction", "volatile-ttl":
	default:
		f.Level = Warning
		f.Advice = "a bucket that is evicted is full again: CONFIG SET maxmemory-policy noeviction, or volatile-ttl, which evicts first what is nearly full"
	}
	if most := info["maxmemory_human"]; info["maxmemory"] == "0" {
		f.Value += ", maxmemory has no bound"
	} else {
		f.Value += ", maxmemory " + most
	}
	return f
}

// persistence tells what a restart of the server costs.
func persistence(info map[string]string) Finding {
	value := "appendonly"
	if info["aof_enabled"] != "1" {
		value = "no appendonly: after a crash, buckets are as in the last snapshot, or full"
	}
	return Finding{What: "persistence", Level: OK, Value: value}
}

// clock tells how far the server's clock is from that of this machine.
func clock(ctx context.Context, c redis.Cmdable) Finding {
	began := time.Now()
	at, err := c.Time(ctx).Result()
	if err != nil {
		return unknown("clock", err, "+time")
	}
	now := time.Now()
	middle := began.Add(now.Sub(began) / 2)
	return Finding{What: "clock", Level: OK, Value: at.Sub(middle).Round(time.Millisecond).String() + " from that of this machine; only the store's counts"}
}

// fields returns the lines of an INFO, by name.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}
