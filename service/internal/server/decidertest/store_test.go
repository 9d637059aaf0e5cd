package decidertest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	redisserver "github.com/alicebob/miniredis/v2/server"

	"github.com/weir-go/weir/internal/redislink"
)

// A store runs scripts by the clock of the bubble.
type store struct {
	away atomic.Bool
	mu   sync.Mutex // held while a script runs
	eval func(ctx context.Context, source string, keys []string, args []any) ([]int64, error)
}

// send is redislink.Config.Send.
func (s *store) send(ctx context.Context, calls []*redislink.Call, _ bool) []redislink.Answer {
	answers := make([]redislink.Answer, len(calls))
	if s.away.Load() {
		<-ctx.Done()
		for i := range answers {
			answers[i].Err = redislink.ErrAway
		}
		return answers
	}
	for i, c := range calls {
		s.mu.Lock()
		answers[i].Numbers, answers[i].Err = s.eval(ctx, timed(c.Script.Source), c.Keys, c.Args)
		s.mu.Unlock()
	}
	return answers
}

// clear forgets everything.
func (s *store) clear() error {
	_, err := s.eval(context.Background(), `redis.call('FLUSHALL') return {}`, nil, nil)
	s.away.Store(false)
	return err
}

// timed returns a script that runs at the present instant of the bubble. Its keys do not expire, which makes no
// difference to it.
func timed(source string) string {
	now := time.Now()
	return fmt.Sprintf(`
local server = redis
local function call(what, ...)
  if what == 'TIME' then return {'%d', '%d'} end
  if what == 'PEXPIRE' then return 1 end
  if what == 'PSETEX' then
    local key, _, value = ...
    return server.call('SET', key, value)
  end
  return server.call(what, ...)
end
local redis = {call = call}
`, now.Unix(), now.Nanosecond()/1000) + source
}

// stores start stores, by name.
var stores = map[string]func(*testing.T) *store{"store": newStore}

// newStore returns a store in this process.
func newStore(t *testing.T) *store {
	t.Helper()
	m := miniredis.RunT(t)
	return &store{eval: func(_ context.Context, source string, keys []string, args []any) ([]int64, error) {
		line := append([]string{"EVAL", source, strconv.Itoa(len(keys))}, keys...)
		for _, a := range args {
			line = append(line, fmt.Sprint(a))
		}
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		m.Server().Dispatch(redisserver.NewPeer(w), line)
		_ = w.Flush()
		return readNumbers(bufio.NewReader(&b))
	}}
}

// readNumbers reads a reply that is a list of numbers.
func readNumbers(in *bufio.Reader) (all []int64, err error) {
	head, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, isList := strings.CutPrefix(strings.TrimSpace(head), "*")
	count, err := strconv.Atoi(n)
	if err != nil || !isList {
		return nil, fmt.Errorf("store: %s", head)
	}
	for range count {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		number, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(line), ":"), 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, number)
	}
	return all, nil
}
