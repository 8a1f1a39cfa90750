package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/lash-go/lash/session/keyring"
)

// signed compares a turn whose end has a signed head with the same turn without: its time, commits and bytes. The two
// servers alternate, so that the load of the machine is the same for both. The number of commits depends on which
// events were ready together; TestSignedTurnAppends compares them exactly.
func (r *runner) signed(ctx context.Context) error {
	bare, err := r.servedRig(ctx, 0, nil)
	if err != nil {
		return err
	}
	defer bare.close()
	dir, err := os.MkdirTemp(r.dir, "keys-")
	if err != nil {
		return err
	}
	keys, err := keyring.Open(filepath.Join(dir, "keys"), time.Now())
	if err != nil {
		return err
	}
	full, err := r.servedRig(ctx, 0, keys.Signer)
	if err != nil {
		return err
	}
	defer full.close()
	without, with, err := compare(ctx, bare, full, r.scaled(300))
	if err != nil {
		return err
	}
	plain, heads := without.perTurn, with.perTurn
	r.report.SignedTurnRatio = with.p50() / without.p50()
	f := r.report.Lash
	f["turn_p50_ms_unsigned"], f["turn_p50_ms_signed"] = without.p50(), with.p50()
	f["turn_commits_unsigned"], f["turn_commits_signed"] = plain.commits, heads.commits
	f["turn_bytes_unsigned"], f["turn_bytes_signed"] = plain.bytes, heads.bytes
	return nil
}
