package respapi

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

// A command is a command of the API.
type command struct {
	name        string
	least, most int          // arguments, the name included; at most any number if most is 0
	action      token.Action // on the key; "" if it has none
	key         bool         // the first argument is a key
	open        bool         // for clients without a token
	run         func(*conn) result
}

// commands are in order of the name, but the first, which stands for unknown ones.
var commands []command

// throttleIndex is the index of CL.THROTTLE.
var throttleIndex int

// byName has the indexes of the commands.
var byName = map[string]int{}

func init() {
	commands = []command{
		{name: "unknown", run: (*conn).unknown},
		{name: "auth", least: 2, most: 3, open: true, run: (*conn).auth},
		{name: "cl.throttle", least: 1, action: token.Decide, key: true, run: (*conn).throttle},
		{name: "client", least: 2, run: (*conn).client},
		{name: "command", least: 1, run: (*conn).describe},
		{name: "config", least: 2, run: (*conn).config},
		{name: "echo", least: 2, most: 2, run: (*conn).echo},
		{name: "hello", least: 1, open: true, run: (*conn).hello},
		{name: "info", least: 1, run: (*conn).info},
		{name: "ping", least: 1, most: 2, run: (*conn).ping},
		{name: "quit", least: 1, open: true, run: (*conn).quit},
		{name: "reset", least: 1, most: 1, open: true, run: (*conn).reset},
		{name: "select", least: 2, most: 2, run: (*conn).selectDB},
		{name: "weir.explain", least: 2, most: 2, action: token.Debug, key: true, run: (*conn).explain},
		{name: "weir.lease", least: 2, action: token.Lease, key: true, run: (*conn).lease},
		{name: "weir.release", least: 3, most: 4, action: token.Lease, key: true, run: (*conn).release},
		{name: "weir.renew", least: 3, action: token.Lease, key: true, run: (*conn).renew},
		{name: "weir.settle", least: 4, most: 4, action: token.Decide, key: true, run: (*conn).settle},
		{name: "weir.take", least: 2, most: 3, action: token.Decide, key: true, run: (*conn).take},
		{name: "weir.top", least: 1, most: 2, action: token.Debug, run: (*conn).top},
		{name: "weir.wait", least: 2, action: token.Decide, key: true, run: (*conn).wait},
	}
	for i := range commands[1:] {
		byName[commands[i+1].name] = i + 1
	}
	throttleIndex = byName["cl.throttle"]
}

// maxName bounds the names of commands, in bytes.
const maxName = 16

// find returns the index of a command; 0 if there is none. The name is in any case.
func find(name []byte) int {
	var lower [maxName]byte
	if len(name) > len(lower) {
		return 0
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	return byName[string(lower[:len(name)])]
}

// run runs the command that was decoded, and counts it.
func (c *conn) run() {
	if name := c.Args[0]; string(name) != string(c.last.name[:c.last.size]) {
		c.last.index, c.last.size = find(name), copy(c.last.name[:], name)
	}
	if c.last.index != throttleIndex {
		c.decideThrottles()
	}
	if r := c.call(&commands[c.last.index]); r != resultLater {
		c.count(c.last.index, r)
	}
}

// count counts a command, but in the counts of the API only when another one follows, or
// when the replies are sent: all connections write to these.
func (c *conn) count(index int, r result) {
	if index != c.same.index || r != c.same.result {
		c.countSame()
		c.same.index, c.same.result = index, r
	}
	c.same.n++
}

func (c *conn) countSame() {
	if c.same.n > 0 {
		c.api.counts.commands[c.same.index][c.same.result].Add(c.same.n)
		c.same.n = 0
	}
}

// call authorizes a command, and runs it. Nothing of it is decided before.
func (c *conn) call(cmd *command) result {
	n := len(c.Args)
	switch {
	case c.session != nil && !cmd.open && !c.session.Known():
		c.session.Count()
		return c.fail("NOAUTH Authentication required.")
	case n < cmd.least || cmd.most > 0 && n > cmd.most:
		return c.fail("ERR wrong number of arguments for '" + cmd.name + "' command")
	}
	if c.request.Key = ""; cmd.key && n > 1 {
		var err error
		if c.request.Key, err = decider.ParseKey(text(c.Args[1]), c.api.cfg.MaxKey); err != nil {
			return c.fail("ERR " + err.Error())
		}
	}
	if cmd.action != "" {
		if err := c.authorize(cmd.action); err != nil {
			return c.fail("NOPERM " + err.Error())
		}
	}
	return cmd.run(c)
}

// authorize checks whether the client may do something to the key of the command, or to all keys.
func (c *conn) authorize(a token.Action) error {
	switch {
	case c.session != nil:
		c.session.Count()
		return c.session.Authorize(a, c.request.Key)
	case a == token.Debug: // the address counts for nothing else
		return token.AuthorizeOpen(c.nc.RemoteAddr().String(), a, c.request.Key)
	}
	return nil
}

// text returns an argument as a string, without a copy. It is valid until the command ends.
func text(arg []byte) string { return unsafe.String(unsafe.SliceData(arg), len(arg)) }

// key returns a copy of the key, for a command that may wait.
func (c *conn) key() string { return strings.Clone(c.request.Key) }

// fail replies with an error, after the replies to commands before it.
func (c *conn) fail(text string) result {
	c.decideThrottles()
	c.err(text)
	return resultError
}

// unavailable is the error for one of the Decider.
const unavailable = "UNAVAILABLE no decision is available; try again"

// unknown replies to a command that there is not, in the words of Redis. A line of HTTP ends
// the connection: otherwise a page in a browser could send commands as the body of a request.
func (c *conn) unknown() result {
	if name := c.Args[0]; is(name, "post") || is(name, "host:") {
		c.api.counts.ended[badProtocol].Add(1)
		c.broken = true
		return c.fail("ERR Protocol error: this is HTTP")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ERR unknown command '%.128s', with args beginning with: ", c.Args[0])
	for _, arg := range c.Args[1:] {
		if b.Len() > 256 {
			break
		}
		fmt.Fprintf(&b, "'%.128s' ", arg)
	}
	return c.fail(b.String())
}

// count reads a number of tokens or units, or of keys.
func count(arg []byte, least int) (n int, ok bool) {
	v, err := strconv.ParseInt(text(arg), 10, 32)
	return int(v), err == nil && int(v) >= least
}

// duration reads a duration: seconds, or with a unit.
func duration(arg []byte) (time.Duration, bool) {
	s := text(arg)
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		d := seconds * float64(time.Second)
		return time.Duration(d), d >= 1 && d < math.MaxInt64/2
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d > 0
}

const (
	wantCount    = "ERR n must be a whole number from 0 to 2147483647"
	wantUnits    = "ERR n must be a whole number from 1 to 2147483647"
	wantDuration = "ERR a time must be more than 0: seconds such as 30 or 1.5, or a duration such as 200ms"
	wrongSyntax  = "ERR syntax error"
)

// is reports whether an argument is a word, which is in lower case.
func is(arg []byte, word string) bool {
	return len(arg) == len(word) && strings.EqualFold(text(arg), word)
}
