package security

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lash-go/lash/internal/runtest"
)

// TestTenantsFitSmallServer makes a third tenant with the defaults. All three have reserved what they may store on a server of 1 GiB of memory and
// 10 GiB of disk. The script warns of a fourth one, and of a server that therefore does not start.
func TestTenantsFitSmallServer(t *testing.T) {
	t.Parallel()
	const gib = int64(1 << 30)
	d := install(t)
	line := run(t, d.dir, "add-tenant.sh", "initech")
	runtest.Equal(t, "said of the third", line, "  include ./tenants/initech.conf\n")
	d.edit("accounts.conf", "  include ./tenants/acme.conf\n", "  include ./tenants/acme.conf\n"+line)
	d.boot()
	is, err := d.ns.Jsz(&server.JSzOptions{Accounts: true})
	runtest.WantError(t, "state of the server", err, nil)
	runtest.Equal(t, "memory of the server", is.Config.MaxMemory, gib)
	runtest.Equal(t, "disk of the server", is.Config.MaxStore, 10*gib)
	var memory, disk uint64
	for _, account := range is.AccountDetails {
		memory, disk = memory+account.ReservedMemory, disk+account.ReservedStore
	}
	runtest.Equal(t, "memory of the tenants", memory, uint64(3*320<<20))
	runtest.Equal(t, "disk of the tenants", disk, uint64(3*3*gib))

	out, err := script(d.dir, "add-tenant.sh", "hooli")
	runtest.WantError(t, "fourth", err, nil)
	for _, want := range []string{"server.conf: max_memory_store is 1073741824 bytes, and the tenants have 1342177280: raise it", "cluster/cluster.conf: max_file_store is 10737418240 bytes"} {
		runtest.Contains(t, "out", out, want)
	}
}
