package respapi

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// ping is PING [message].
func (c *conn) ping() result {
	if len(c.Args) == 1 {
		c.status("PONG")
	} else {
		c.bulk(text(c.Args[1]))
	}
	return resultOK
}

// echo is ECHO message.
func (c *conn) echo() result {
	c.bulk(text(c.Args[1]))
	return resultOK
}

// quit is QUIT.
func (c *conn) quit() result {
	c.ok()
	c.ends = true
	return resultOK
}

// reset is RESET.
func (c *conn) reset() result {
	c.resp3, c.name = false, ""
	c.logOut()
	c.status("RESET")
	return resultOK
}

// selectDB is SELECT 0.
func (c *conn) selectDB() result {
	switch n, ok := count(c.Args[1], 0); {
	case !ok:
		return c.fail("ERR value is not an integer or out of range")
	case n != 0:
		return c.fail("ERR DB index is out of range")
	}
	c.ok()
	return resultOK
}

// auth is AUTH [user] secret. The user can be any.
func (c *conn) auth() result {
	if c.api.cfg.Identify == nil && len(c.Args) == 2 {
		return c.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	}
	if !c.logIn(c.Args[len(c.Args)-1]) {
		return c.fail(wrongPass)
	}
	c.ok()
	return resultOK
}

const wrongPass = "WRONGPASS invalid username-password pair or user is disabled."

// logIn reports whether a token has a secret. If not, the client keeps the token it
// has.
func (c *conn) logIn(secret []byte) bool {
	if c.api.cfg.Identify == nil {
		return true
	}
	session := c.api.cfg.Identify(string(secret))
	if !session.Known() {
		session.Count()
		return false
	}
	c.session = session
	return true
}

// hello is HELLO [2|3 [AUTH user secret] [SETNAME name]].
func (c *conn) hello() result {
	args, resp3, name := c.Args[1:], c.resp3, c.name
	if len(args) > 0 {
		switch string(args[0]) {
		case "2":
			resp3 = false
		case "3":
			resp3 = true
		default:
			return c.fail("NOPROTO unsupported protocol version")
		}
		args = args[1:]
	}
	for len(args) > 0 {
		switch {
		case len(args) >= 3 && is(args[0], "auth"):
			if !c.logIn(args[2]) {
				return c.fail(wrongPass)
			}
			args = args[3:]
		case len(args) >= 2 && is(args[0], "setname"):
			if !validName(args[1]) {
				return c.fail(wantName)
			}
			name, args = string(args[1]), args[2:]
		default:
			return c.fail(fmt.Sprintf("ERR Syntax error in HELLO option '%.128s'", args[0]))
		}
	}
	if c.session != nil && !c.session.Known() {
		return c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	c.resp3, c.name = resp3, name
	l := c.begin()
	c.text(&l, "server", "weir")
	c.text(&l, "version", redisVersion)
	c.number(&l, "proto", c.proto())
	c.number(&l, "id", c.serial)
	c.text(&l, "mode", "standalone")
	c.text(&l, "role", "master")
	c.field(&l, "modules")
	c.array(0)
	c.end(l)
	return resultOK
}

// redisVersion is the version of Redis that the API names to clients that connect.
const redisVersion = "7.2.4"

func (c *conn) proto() int64 {
	if c.resp3 {
		return 3
	}
	return 2
}

// validName reports whether a client may have a name.
func validName(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return len(name) <= 256
}

const wantName = "ERR Client names cannot contain spaces, newlines or special characters."

// client is CLIENT subcommand ...: what clients say of themselves when they connect.
func (c *conn) client() result {
	args := c.Args[2:]
	switch sub := c.Args[1]; {
	case is(sub, "setname") && len(args) == 1:
		if !validName(args[0]) {
			return c.fail(wantName)
		}
		c.name = string(args[0])
		c.ok()
	case is(sub, "getname") && len(args) == 0:
		if c.name == "" {
			c.null()
		} else {
			c.bulk(c.name)
		}
	case is(sub, "id") && len(args) == 0:
		c.integer(c.serial)
	case is(sub, "info") && len(args) == 0:
		c.bulk(fmt.Sprintf("id=%d addr=%v laddr=%v name=%s db=0 resp=%d\n", c.serial, c.nc.RemoteAddr(), c.nc.LocalAddr(), c.name, c.proto()))
	case is(sub, "setinfo") && len(args) == 2,
		is(sub, "no-evict") && len(args) == 1,
		is(sub, "no-touch") && len(args) == 1,
		is(sub, "tracking") && len(args) >= 1: // there is nothing to cache, so nothing becomes invalid
		c.ok()
	default:
		return c.fail(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try CLIENT HELP.", sub))
	}
	return resultOK
}

// config is CONFIG GET pattern ...: what tools ask for.
func (c *conn) config() result {
	if !is(c.Args[1], "get") || len(c.Args) < 3 {
		return c.fail(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try CONFIG HELP.", c.Args[1]))
	}
	l := c.begin()
	for _, s := range [...][2]string{{"save", ""}, {"appendonly", "no"}, {"databases", "1"}} {
		for _, pattern := range c.Args[2:] {
			if ok, _ := path.Match(strings.ToLower(string(pattern)), s[0]); ok {
				c.text(&l, s[0], s[1])
				break
			}
		}
	}
	c.end(l)
	return resultOK
}

// info is INFO [section ...].
func (c *conn) info() result {
	c.api.mu.Lock()
	clients := len(c.api.conns)
	c.api.mu.Unlock()
	c.bulk(fmt.Sprintf("# Server\r\nredis_version:%s\r\nserver_name:weir\r\nweir_version:%s\r\nredis_mode:standalone\r\nuptime_in_seconds:%d\r\n\r\n"+
		"# Clients\r\nconnected_clients:%d\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
		redisVersion, c.api.cfg.Version, int(time.Since(c.api.began).Seconds()), clients))
	return resultOK
}

// describe is COMMAND [COUNT|DOCS|INFO|LIST ...].
func (c *conn) describe() result {
	known := commands[1:]
	args := c.Args[1:]
	switch {
	case len(args) == 0:
		c.array(len(known))
		for i := range known {
			c.commandReply(&known[i])
		}
	case is(args[0], "count"):
		c.integer(int64(len(known)))
	case is(args[0], "docs"):
		c.fields(0)
	case is(args[0], "list"):
		c.array(len(known))
		for i := range known {
			c.bulk(known[i].name)
		}
	case is(args[0], "info"):
		c.array(len(args) - 1)
		for _, name := range args[1:] {
			if i := find(name); i > 0 {
				c.commandReply(&commands[i])
			} else {
				c.null()
			}
		}
	default:
		return c.fail(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try COMMAND HELP.", args[0]))
	}
	return resultOK
}

// commandReply describes a command: its name, arity, flags, and where its keys are.
func (c *conn) commandReply(cmd *command) {
	arity, key := int64(cmd.least), int64(0)
	if cmd.most != cmd.least {
		arity = -arity
	}
	if cmd.key {
		key = 1
	}
	c.array(6)
	c.bulk(cmd.name)
	c.integer(arity)
	c.array(1)
	c.status("fast")
	for range 3 {
		c.integer(key)
	}
}
