package integration

func lifecycleEntries() []entry { return nil }
