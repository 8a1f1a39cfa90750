package bench

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/keyring"
)

// signed compares a turn whose end has a signed head with the same turn without: its time, commits and bytes. The two
// servers alternate, so that the load of the machine is the same for both. The number of commits depends on which
// events were ready together; TestSignedTurnAppends compares them exactly.
func (r *runner) signed(ctx context.Context) error {
	bare, err := r.signing(ctx, nil)
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
	full, err := r.signing(ctx, keys.Signer)
	if err != nil {
		return err
	}
	defer full.close()
	var without, with samples
	for range r.scaled(300) {
		if err := without.timed(func() error { return bare.turn(ctx, "s0") }); err != nil {
			return err
		}
		if err := with.timed(func() error { return full.turn(ctx, "s0") }); err != nil {
			return err
		}
	}
	plain, err := foldCost(ctx, bare.rig, len(without))
	if err != nil {
		return err
	}
	heads, err := foldCost(ctx, full.rig, len(with))
	if err != nil {
		return err
	}
	r.report.SignedTurnRatio = with.p50() / without.p50()
	f := r.report.Lash
	f["turn_p50_ms_unsigned"], f["turn_p50_ms_signed"] = without.p50(), with.p50()
	f["turn_commits_unsigned"], f["turn_commits_signed"] = plain.commits, heads.commits
	f["turn_bytes_unsigned"], f["turn_bytes_signed"] = plain.bytes, heads.bytes
	return nil
}

// signing is a rig whose node signs, or does not.
func (r *runner) signing(ctx context.Context, signer func() *proof.Signer) (*hookedRig, error) {
	s, err := r.server(busembed.ProfileInterval)
	if err != nil {
		return nil, err
	}
	plugins, err := stack(0)
	if err != nil {
		return nil, err
	}
	g, err := newSigningRig(ctx, bus.Config{URL: s.URL()}, plugins, signer)
	if err != nil {
		return nil, err
	}
	_, err = g.host.Create(ctx, api.CreateRequest{ID: "s0"})
	return &hookedRig{g, s}, err
}
