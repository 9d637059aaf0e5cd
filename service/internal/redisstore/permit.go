package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
)

// attempts are the commands that the scripts use, with arguments of a key with which they change
// nothing: a server checks permissions before arguments.
var attempts = map[string][]any{
	"time":   {},
	"get":    nil,
	"set":    {"", "px", 0},
	"psetex": {0, ""},
	"del":    nil,

	"zadd":             {"nan", ""},
	"zrem":             {""},
	"zrank":            {""},
	"zscore":           {""},
	"zrange":           {0, 0},
	"zcount":           {0, 0},
	"zrangebyscore":    {0, 0},
	"zremrangebyscore": {0, 0},
	"pttl":             nil,
	"pexpire":          {1},
}

// permissions reports whether the user may run all commands of the scripts, on keys with the
// prefix. On a master of a Cluster, the key may be in another's slot, which the server checks
// after permissions.
func (k *check) permissions(ctx context.Context, c redis.Cmdable) Finding {
	key := k.prefix + "{check}"
	pipe := c.Pipeline()
	cmds := map[string]*redis.Cmd{}
	for name, args := range attempts {
		line := []any{name}
		if name != "time" {
			line = append(line, key)
		}
		cmds[name] = pipe.Do(ctx, append(line, args...)...)
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	f := Finding{What: "permissions", Level: OK, Value: "all commands of the scripts"}
	var missing []string
	for name, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil || errors.Is(err, redis.Nil):
		case noKey(err):
			f.Level, f.Value = Failure, "no access to keys such as "+key
			f.Advice = "the ACL user needs the keys ~" + k.prefix + "*"
			return f
		case refused(err):
			missing = append(missing, "+"+name)
		case !answered(err), stuck(err):
			return broken("writes", err)
		}
	}
	if len(missing) > 0 {
		f.Level, f.Value = Failure, fmt.Sprintf("%d commands are not permitted", len(missing))
		f.Advice = "the ACL user needs " + sorted(missing)
	}
	return f
}

// scripts reports whether the scripts run, with arguments that only look.
func (k *check) scripts(ctx context.Context) Finding {
	f := Finding{What: "scripts", Level: OK, Value: "run"}
	key := k.prefix + "{check}"
	quota, err := redisscript.NewWindow(redisscript.SlidingWindow, 1, 1e9)
	if err != nil {
		panic(err)
	}
	look := redisscript.Lease{TTL: 1e9, Limits: []int{1}}
	calls := []*redislink.Call{
		{Script: redislink.NewScript(redisscript.Buckets), Keys: []string{key}, Args: quota.Args(nil, new(redisscript.Take))},
		{Script: redislink.NewScript(redisscript.Leases), Keys: []string{key + ":leases"}, Args: look.Args(redisscript.LookLease)},
		{Script: redislink.NewScript(redisscript.Nodes), Keys: []string{key + ":nodes", key + ":secret"}, Args: []any{"", 1, 0, 0, 0, 0}},
	}
	for _, source := range []bool{true, false} {
		for _, a := range redislink.Send(ctx, k.client.Pipeline(), calls, source) {
			switch {
			case a.Err == nil:
			case noKey(a.Err) || strings.Contains(a.Err.Error(), "The user executing the script"):
				return Finding{What: "scripts", Level: Failure, Value: a.Err.Error(), Advice: "see permissions"}
			case refused(a.Err):
				return Finding{What: "scripts", Level: Failure, Value: a.Err.Error(), Advice: "the ACL user needs +eval +evalsha"}
			default:
				return broken("scripts", a.Err)
			}
		}
	}
	return f
}
