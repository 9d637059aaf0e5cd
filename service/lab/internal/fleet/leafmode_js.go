package fleet

import "errors"

// newLeafPolicy returns an error: a browser does without the server, which would double what it has to load.
func newLeafPolicy(*Sim) (policy, error) {
	return nil, errors.New("fleet.policy = leaf: not in a browser; weirlab sim has it")
}
