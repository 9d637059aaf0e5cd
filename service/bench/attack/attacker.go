package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// An attacker is an attack in a separate process.
type attacker struct {
	cmd  *exec.Cmd
	in   io.Closer // the attack ends when it is closed
	out  bytes.Buffer
	done chan struct{} // closed when the process has ended
	err  error         // how
}

func startAttacker(self string, nice int, name, addr string) (*attacker, error) {
	a := &attacker{done: make(chan struct{})}
	a.cmd = exec.Command("nice", "-n", strconv.Itoa(nice), self, "-attacker", name, addr)
	a.cmd.Stdout, a.cmd.Stderr = &a.out, os.Stderr
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		a.err = a.cmd.Wait()
		close(a.done)
	}()
	return a, nil
}

// end ends the attack, and returns what it did.
func (a *attacker) end() (did string, err error) {
	_ = a.in.Close()
	select {
	case <-a.done:
		return strings.TrimSpace(a.out.String()), a.err
	case <-time.After(time.Minute):
		return "", errors.New("the attacker does not end")
	}
}

// stop kills the attacker if it has not ended.
func (a *attacker) stop() {
	_ = a.cmd.Process.Kill()
	<-a.done
}
