"""What engines start: devices and precisions, designs, pairs."""
