package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A postgres is a PostgreSQL server with its data in a temporary directory. Programs of the same
// user, and of root, reach it through a Unix socket there, as the database user orders.
type postgres struct {
	socket string   // the directory of the socket, which is the one of the data
	dir    string   // the temporary directory
	bin    string   // the directory of initdb and pg_ctl
	as     []string // the command that runs these as another user; empty unless this process is root
}

//go:embed schema.sql
var schema string

// startPostgres starts a server with the tables of schema. The caller stops it.
func startPostgres(ctx context.Context) (*postgres, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "orders-")
	if err != nil {
		return nil, err
	}
	p := &postgres{socket: filepath.Join(dir, "data"), dir: dir, bin: bin}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// postgresPrograms returns the directory of PostgreSQL's programs. Debian keeps them outside PATH.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New("there is no initdb: install PostgreSQL (on Debian: apt-get install postgresql)")
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

func (p *postgres) start(ctx context.Context) error {
	if len(p.socket) > 80 {
		return fmt.Errorf("%s: the path of a socket has to be shorter: set TMPDIR to another directory", p.socket)
	}
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("PostgreSQL does not run as root: %w", err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(p.dir, uid, gid); err != nil {
			return err
		}
		p.as = []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups"}
	}
	if err := p.do(ctx, "initdb", "--username=orders", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"); err != nil {
		return err
	}
	// pg_ctl starts the server in its own session, so that an interrupt from the terminal
	// does not end it before the service. The data is temporary: -F does without fsync.
	err := p.do(ctx, "pg_ctl", "start", "--wait", "--silent", "--log="+filepath.Join(p.dir, "log"),
		"--options=-F -k . -p 5432 -c listen_addresses=")
	if err != nil {
		messages, _ := os.ReadFile(filepath.Join(p.dir, "log"))
		return fmt.Errorf("%w\n%s", err, messages)
	}
	pool, err := newPool(ctx, p, "close")
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schema); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

// stop ends the server, and removes its data.
func (p *postgres) stop() error {
	var err error
	if _, missing := os.Stat(filepath.Join(p.socket, "postmaster.pid")); missing == nil {
		err = p.do(context.Background(), "pg_ctl", "stop", "--wait", "--silent", "--mode=immediate")
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// do runs a program of PostgreSQL on the data.
func (p *postgres) do(ctx context.Context, program string, args ...string) error {
	args = append(append(slices.Clone(p.as), filepath.Join(p.bin, program), "--pgdata="+p.socket), args...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // pg_ctl then ends what it has started
	cmd.Dir = p.dir                                                       // the user may not enter the one of this process
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%s: %w\n%s", program, err, stderr.String())
	}
	return nil
}
