package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lash-go/lash/session/plugin/wire"
)

// Types of lines.
const (
	lineRegister   = wire.VerbRegister // from the program
	lineOutput     = "output"
	lineCallback   = wire.VerbCallback // and its answer
	lineOutcome    = "outcome"
	lineHookResult = "hook_result"
	linePlaced     = "placed"

	lineInit   = "init" // to the program
	lineCall   = wire.VerbCall
	lineCancel = wire.VerbCancel
	lineHook   = wire.VerbHook
	lineStart  = wire.VerbSessionStart
	lineIdle   = wire.VerbIdle
	lineDrain  = wire.VerbDrain
)

// maxLineBytes limits a line of the program: an outcome, and the ids of its call.
const maxLineBytes = wire.MaxOutcomeBytes + 4096

// initial is the answer to a register line.
type initial struct {
	Plugin string `json:"plugin"`
	Hash   string `json:"hash"` // of the manifest
}

// printed is an output line.
type printed struct {
	wire.CallID
	Stream string `json:"stream,omitempty"` // "stdout" by default
	Text   string `json:"text"`
}

// ended is an outcome line.
type ended struct {
	wire.CallID
	wire.Outcome
}

// requested is a callback line.
type requested struct {
	wire.CallID
	wire.Callback
}

// answered is a hook_result line.
type answered struct {
	hookKey
	wire.HookResult
}

// hookKey names a call of a hook. All hooks of a point have one invocation.
type hookKey struct {
	Invocation string `json:"invocation"`
	Hook       string `json:"hook"`
}

// lineOf is a message as a line.
func lineOf(kind string, message any) ([]byte, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, `{"type":%q`, kind)
	if len(body) > len(`{}`) {
		head = append(head, ',')
	}
	return append(append(head, body[1:]...), '\n'), nil
}

// readLines calls receive with each line that is not blank, until it returns an error, or the input ends.
func readLines(r io.Reader, receive func(line []byte) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLineBytes {
			return fmt.Errorf("a line of its output is longer than %d bytes", maxLineBytes)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil //nolint:nilerr // the program, or its output, ended
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if err := receive(line); err != nil {
				return err
			}
		}
		if line = line[:0]; cap(line) > 1<<20 {
			line = nil
		}
	}
}
