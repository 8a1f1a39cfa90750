package plugin

type (
	TaskHost    interface{}
	MonitorHost interface{}
)
type monitorSpec struct{ ID string }
