package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
)

// verified is the output of verify.
type verified struct {
	Proven []struct {
		After    events.Seq        `json:"after_from"`
		Redacted []proof.Redaction `json:"redacted"`
	} `json:"proven"`
	Violations []finding `json:"violations"`
}

func verifyOf(t *testing.T, args ...string) (v verified) {
	t.Helper()
	var out, errs strings.Builder
	code := run(t.Context(), append([]string{"verify", "--json"}, args...), &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
	if code == exitError && strings.Contains(errs.String(), events.ErrFutureVersion.Error()) { // a bit of a version; the error says where
		v.Violations = []finding{{Check: checkHistory, Problem: errs.String()}}
		return v
	}
	if code == exitError {
		t.Fatalf("verify %v: %s", args, &errs)
	}
	runtest.NoError(t, json.Unmarshal([]byte(out.String()), &v))
	if (code == 0) != (len(v.Violations) == 0) {
		t.Errorf("verify %v: got exit code %d with %d violations", args, code, len(v.Violations))
	}
	return v
}

// names reports whether a finding names a commit by its sequence, or a range with it.
func names(f *finding, seq events.Seq) bool {
	return f.Seq == seq || f.Seq <= seq && seq <= f.Upto || strings.Contains(f.Problem, fmt.Sprintf("sequence %d:", seq)) || strings.Contains(f.Problem, fmt.Sprintf(" at %d:", seq))
}

// check compares what verify found with what was changed.
func (ch *forgery) check(t *testing.T, v verified) {
	t.Helper()
	if ch.redacts {
		if len(v.Violations) > 0 || len(v.Proven) != 1 || len(v.Proven[0].Redacted) != 1 || v.Proven[0].Redacted[0].Seq != ch.seqs[0] {
			t.Errorf("%s of %d: got %+v", ch.name, ch.seqs, v)
		}
		return
	}
	proofs := slices.DeleteFunc(slices.Clone(v.Violations), func(f finding) bool {
		return f.Check != checkProof && f.Check != checkArchive && f.Check != checkHistory
	})
	for _, seq := range ch.seqs {
		if ch.name == "several" && len(v.Proven) == 1 && v.Proven[0].After > 0 && seq >= v.Proven[0].After && len(proofs) > 0 {
			continue // the only head that covers it was altered too: it is listed as not proven
		}
		if !slices.ContainsFunc(proofs, func(f finding) bool { return names(&f, seq) }) {
			t.Errorf("%s of %d, %s: sequence %d is not named: %+v", ch.name, ch.seqs, ch.ids, seq, v.Violations)
		}
	}
	if len(ch.ids) > 0 && !slices.Contains(ch.ids, "") && !slices.ContainsFunc(proofs, func(f finding) bool { return f.Commit != "" && slices.Contains(ch.ids, f.Commit) }) {
		t.Errorf("%s of %d, %s: the id is not named: %+v", ch.name, ch.seqs, ch.ids, v.Violations)
	}
	for i := range proofs {
		if !ch.open && !slices.ContainsFunc(ch.seqs, func(seq events.Seq) bool { return names(&proofs[i], seq) }) {
			t.Errorf("%s of %d, %s: another commit is accused: %+v", ch.name, ch.seqs, ch.ids, proofs[i])
		}
	}
}
