package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/config"
)

// serveOne is the one rule that there is without a file, as GoCC has it.
type serveOne struct {
	ConfigFile         string `short:"c" env:"WEIR_CONFIG_FILE,CONFIG_FILE" placeholder:"PATH" help:"Instead of --rules: GoCC's JSON."`
	MaxRequests        *int   `short:"m" env:"WEIR_MAX_REQUESTS,MAX_REQUESTS" placeholder:"N" help:"Without --rules: requests of a key in each window (100)."`
	WindowMillis       *int   `short:"w" env:"WEIR_WINDOW_MILLIS,WINDOW_MILLIS" placeholder:"MS" help:"Without --rules: the window, in milliseconds (1000)."`
	MaxRequestsInQueue *int   `env:"WEIR_MAX_REQUESTS_IN_QUEUE,MAX_REQUESTS_IN_QUEUE" placeholder:"N" help:"Without --rules: requests of a key that may wait (400)."`
	Algorithm          string `enum:",gcra,fixed,sliding" default:"" placeholder:"NAME" help:"Without --rules: gcra, fixed or sliding (fixed)."`
}

// serveOwn is what requests may say for themselves.
type serveOwn struct {
	RequestsCanSetRate  bool `short:"r" env:"WEIR_REQUESTS_CAN_SET_RATE,REQUESTS_CAN_SET_RATE" help:"Let requests say maxRequests for themselves."`
	RequestsCanModQueue bool `env:"WEIR_REQUESTS_CAN_MOD_QUEUE,REQUESTS_CAN_MOD_QUEUE" help:"Let requests say maxRequestsInQueue for themselves."`
	OverrideMaxRequests int  `default:"1000000" placeholder:"N" help:"The most that maxRequests may be (${default})."`
	OverrideMaxQueue    int  `default:"10000" placeholder:"N" help:"The most that maxRequestsInQueue may be (${default})."`
}

// serveBound is what bounds the server.
type serveBound struct {
	Memory         size          `default:"64MiB" placeholder:"SIZE" help:"Memory for counts (${default})."`
	MaxWaiting     int           `default:"20000" placeholder:"N" help:"Requests that may wait, of all keys; 0: none (${default})."`
	MaxLeases      int           `default:"100000" placeholder:"N" help:"Leases that may be held, of all keys (${default})."`
	MaxKey         int           `default:"1024" placeholder:"BYTES" help:"How long a key may be (${default})."`
	MaxBody        size          `default:"4MiB" placeholder:"SIZE" help:"How large a batch may be (${default})."`
	MaxConnections int           `default:"10000" placeholder:"N" help:"Connections of callers at once; one more takes the place of the one that has been idle for longest (${default})."`
	ClientTimeout  time.Duration `default:"10s" placeholder:"TIME" help:"How long a caller may take to send a header or a body, or to take an answer (${default})."`
}

// A size is a number of bytes. In text, it may be in KiB, MiB or GiB.
type size int

// UnmarshalText is for flags.
func (s *size) UnmarshalText(text []byte) error {
	number, shift := string(text), 0
	for unit, is := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if rest, ok := strings.CutSuffix(number, unit); ok {
			number, shift = rest, is
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n > math.MaxInt>>shift {
		return fmt.Errorf("%q: want a number of bytes, such as 65536, 64KiB, 16MiB or 1GiB", text)
	}
	*s = size(n << shift)
	return nil
}

// overrides returns the most that requests may say for themselves, 0 where they
// may not.
func (o *serveOwn) overrides() (limit, queue int) {
	if o.RequestsCanSetRate {
		limit = o.OverrideMaxRequests
	}
	if o.RequestsCanModQueue {
		queue = o.OverrideMaxQueue
	}
	return limit, queue
}

// check returns what is wrong with the flags.
func (c *serveCmd) check() error {
	if len(c.InstanceURLs) > 0 {
		return usagef("--instance-urls: instances do not share keys: run one, or let callers spread the keys")
	}
	if c.Rules != "" {
		for _, f := range []struct {
			name  string
			given bool
		}{
			{"--config-file", c.ConfigFile != ""}, {"--max-requests", c.MaxRequests != nil}, {"--window-millis", c.WindowMillis != nil},
			{"--max-requests-in-queue", c.MaxRequestsInQueue != nil}, {"--algorithm", c.Algorithm != ""},
		} {
			if f.given {
				return usagef("--rules and %s: only one can count; leave out %[1]s, or its environment variable, for the rules of --rules", f.name)
			}
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return usagef("--tls-cert and --tls-key: give both, or none")
	}
	if c.ClientCA != "" && c.TLSCert == "" {
		return usagef("--client-ca needs --tls-cert and --tls-key")
	}
	return cmp.Or(c.serveOne.check(), c.serveBound.check(),
		within("--port", c.Port, 0, 65535), atLeast(time.Millisecond, "--watch-interval", c.WatchInterval), atLeast(time.Second, "--state-interval", c.StateInterval), atLeast(0, "--grace", c.Grace),
		atLeast(1, "--override-max-requests", c.OverrideMaxRequests), atLeast(1, "--override-max-queue", c.OverrideMaxQueue))
}

func (o *serveOne) check() (err error) {
	for _, f := range []struct {
		name  string
		value *int
		least int
	}{{"--max-requests", o.MaxRequests, 1}, {"--window-millis", o.WindowMillis, 1}, {"--max-requests-in-queue", o.MaxRequestsInQueue, 0}} {
		if f.value != nil {
			err = cmp.Or(err, atLeast(f.least, f.name, *f.value))
		}
	}
	return err
}

func (b *serveBound) check() error {
	return cmp.Or(
		atLeast(64<<10, "--memory", int(b.Memory)), atLeast(0, "--max-waiting", b.MaxWaiting), atLeast(1, "--max-leases", b.MaxLeases),
		atLeast(1, "--max-key", b.MaxKey), atLeast(1, "--max-body", int(b.MaxBody)), atLeast(1, "--max-connections", b.MaxConnections),
		atLeast(time.Millisecond, "--client-timeout", b.ClientTimeout))
}

// within is the check of a flag's bounds.
func within(flag string, v, least, most int) error {
	if v < least || v > most {
		return usagef("%s=%d: must be in [%d, %d]", flag, v, least, most)
	}
	return nil
}

// address returns where callers come in.
func (c *serveCmd) address() string {
	switch {
	case c.Listen != "":
		return c.Listen
	case c.Port != 0:
		return ":" + strconv.Itoa(c.Port)
	}
	return "127.0.0.1:8080"
}

// source says where the rules are from.
func (c *serveCmd) source() string { return cmp.Or(c.Rules, c.ConfigFile, "flags") }

// rules returns what the flags, and the file they name, say.
func (c *serveCmd) rules() (*config.Rules, error) {
	switch {
	case c.Rules != "":
		return config.Load(c.Rules)
	case c.ConfigFile == "":
		return c.serveOne.rules()
	}
	file, err := os.Open(c.ConfigFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfigFile))
	if err != nil {
		return nil, err
	}
	rules, err := config.ParseGoCC(c.ConfigFile, text, config.GoCCDefaults{
		MaxRequests: orElse(c.MaxRequests, 0), MaxRequestsInQueue: c.MaxRequestsInQueue,
		Window: time.Duration(orElse(c.WindowMillis, 0)) * time.Millisecond,
	})
	if err == nil {
		rules.Rules[0].Algorithm = c.algorithm()
	}
	return rules, err
}

// maxConfigFile is more than config reads.
const maxConfigFile = 32 << 20

// rules returns the one rule.
func (o *serveOne) rules() (*config.Rules, error) {
	queue := orElse(o.MaxRequestsInQueue, 400)
	rules := &config.Rules{Rules: []config.Rule{{
		Name: "default", Glob: "*", Queue: &queue,
		Quota: config.Quota{
			Rate:      config.Rate{Count: orElse(o.MaxRequests, 100), Period: time.Duration(orElse(o.WindowMillis, 1000)) * time.Millisecond},
			Algorithm: o.algorithm(),
		},
	}}}
	return rules, rules.Complete()
}

func (o *serveOne) algorithm() config.Algorithm {
	return cmp.Or(config.Algorithm(o.Algorithm), config.Fixed)
}

func orElse(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}
